//! Events. The core group and events.k8s.io serve the same stored objects, in the form of the core group.

mod conversion;

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{immutable, is_set, text};
use super::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const OBJECT_FIELDS: [&str; 7] = [
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
];

pub(super) fn resources() -> Vec<Resource> {
    let mut core = ResourceBuilder::new("v1", "Event", "events", "io.k8s.api.core.v1.Event")
        .short(&["ev"])
        .selectable("reason", "/reason", "")
        .selectable("reportingComponent", "/reportingComponent", "")
        .selectable("source", "/source/component", "")
        .selectable("type", "/type", "")
        .printer(printers::events())
        .prepare(prepare)
        .validate(validate_core);
    let mut newer = ResourceBuilder::new("events.k8s.io/v1", "Event", "events", "io.k8s.api.events.v1.Event")
        .short(&["ev"])
        .selectable("reason", "/reason", "")
        .selectable_as("reportingController", "reportingComponent", "/reportingComponent")
        .selectable("type", "/type", "")
        .printer(printers::events())
        .validate(validate_newer)
        .stored_as(conversion::CONVERSION);
    for field in OBJECT_FIELDS {
        let (stored, pointer) = (format!("involvedObject.{field}"), format!("/involvedObject/{field}"));
        core = core.selectable(&stored, &pointer, "");
        newer = newer.selectable_as(&format!("regarding.{field}"), &stored, &pointer);
    }
    vec![core.build(), newer.build()]
}

/// Fields that upstream always writes.
fn prepare(new: &mut Value, _old: Option<&Value>) {
    for field in ["reportingComponent", "reportingInstance"] {
        super::fields::default(new, "", field, "");
    }
}

fn validate_core(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    validate(new, "reportingComponent")
}

/// The checks of both groups, which name the reporting controller differently.
fn validate(new: &Value, controller: &str) -> Vec<FieldError> {
    const NAMESPACE: &str = "does not match event.namespace";
    let namespace = text(new, "/metadata/namespace");
    let involved = text(new, "/involvedObject/namespace");
    let mut errors = Vec::new();
    let mut refuse_namespace = || {
        errors.push(FieldError::invalid("involvedObject.namespace", involved, NAMESPACE));
    };
    if !is_set(new.get("eventTime")) {
        let good = if involved.is_empty() {
            matches!(namespace, "" | "default")
        } else {
            involved == namespace
        };
        if !good {
            refuse_namespace();
        }
        return errors;
    }
    if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
        refuse_namespace();
    }
    let reporter = text(new, "/reportingComponent");
    if reporter.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    syntax::qualified_name(&mut errors, controller, reporter);
    for (field, limit, required) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        ("message", 1024, false),
    ] {
        let length = text(new, &format!("/{field}")).len();
        if length == 0 && required {
            errors.push(FieldError::required(field, ""));
        }
        if length > limit {
            errors.push(FieldError::invalid(
                field,
                "",
                format!("can have at most {limit} characters"),
            ));
        }
    }
    errors
}

/// events.k8s.io is stricter: it requires the new fields, and events do not change except for their series.
fn validate_newer(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate(new, "reportingController");
    let Some(old) = old else {
        validate_series(&mut errors, new);
        validate_new_fields(&mut errors, new);
        return errors;
    };
    if old.get("series") != new.get("series") {
        validate_series(&mut errors, new);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
    ] {
        immutable(&mut errors, new, old, &format!("/{field}"));
    }
    for (field, name) in [
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if text(new, &format!("/{field}")) != text(old, &format!("/{field}")) {
            errors.push(FieldError::invalid(
                name,
                text(new, &format!("/{field}")),
                "field is immutable",
            ));
        }
    }
    errors
}

fn validate_series(errors: &mut Vec<FieldError>, new: &Value) {
    let Some(series) = new.get("series").filter(|series| series.is_object()) else {
        return;
    };
    if series.get("count").and_then(Value::as_i64).unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if !is_set(series.get("lastObservedTime")) {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn validate_new_fields(errors: &mut Vec<FieldError>, new: &Value) {
    if !is_set(new.get("eventTime")) {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(new, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let old_fields = [
        ("firstTimestamp", is_set(new.get("firstTimestamp"))),
        ("lastTimestamp", is_set(new.get("lastTimestamp"))),
        (
            "count",
            new.get("count").and_then(Value::as_i64).unwrap_or_default() != 0,
        ),
        (
            "source",
            !text(new, "/source/component").is_empty() || !text(new, "/source/host").is_empty(),
        ),
    ];
    for (field, given) in old_fields {
        if given {
            errors.push(FieldError::invalid(field, "", "needs to be unset"));
        }
    }
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
        assert_eq!(validate_core(&event, None).len(), expected);
    }

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({ "reportingComponent": "" }), &["reportingController"; 3])]
    #[case(json!({ "type": "Odd", "count": 2 }), &["type", "count"])]
    #[case(json!({ "series": { "count": 1 } }), &["series.count", "series.lastObservedTime"])]
    fn the_newer_group_is_strict(#[case] change: Value, #[case] expected: &[&str]) {
        let mut event = json!({
            "metadata": { "namespace": "a" }, "involvedObject": { "namespace": "a" }, "type": "Normal", "action": "b",
            "reason": "c", "reportingComponent": "example.com/d", "reportingInstance": "e",
            "eventTime": "2026-01-01T00:00:00.000000Z",
        });
        event
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let errors = validate_newer(&event, None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
