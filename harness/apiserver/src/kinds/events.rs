//! Events of the core group.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::text;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    const INVOLVED: [&str; 7] = [
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
    ];
    let mut resource = ResourceBuilder::new("v1", "Event", "events", "io.k8s.api.core.v1.Event")
        .short(&["ev"])
        .selectable("reason", "/reason", "")
        .selectable("reportingComponent", "/reportingComponent", "")
        .selectable("source", "/source/component", "")
        .selectable("type", "/type", "")
        .printer(printers::events())
        .prepare(prepare)
        .validate(validate);
    for field in INVOLVED {
        resource = resource.selectable(
            &format!("involvedObject.{field}"),
            &format!("/involvedObject/{field}"),
            "",
        );
    }
    vec![resource.build()]
}

/// Fields that upstream always writes, and `reportingComponent` as a mirror of the source.
fn prepare(new: &mut Value, _old: Option<&Value>) {
    let component = text(new, "/source/component").to_owned();
    let host = text(new, "/source/host").to_owned();
    super::fields::default(new, "", "reportingComponent", component);
    super::fields::default(new, "", "reportingInstance", host);
}

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let namespace = text(new, "/metadata/namespace");
    let involved = text(new, "/involvedObject/namespace");
    let good = if involved.is_empty() {
        matches!(namespace, "" | "default")
    } else {
        involved == namespace
    };
    if good {
        return Vec::new();
    }
    vec![FieldError::invalid(
        "involvedObject.namespace",
        involved,
        "does not match event.namespace",
    )]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("", "default", 0)]
    #[case("", "kube-system", 1)]
    #[case("a", "a", 0)]
    #[case("a", "b", 1)]
    fn an_event_is_in_the_namespace_of_its_object(
        #[case] involved: &str,
        #[case] namespace: &str,
        #[case] expected: usize,
    ) {
        let event = json!({ "metadata": { "namespace": namespace }, "involvedObject": { "namespace": involved } });
        assert_eq!(validate(&event, None).len(), expected);
    }
}
