//! Namespaces.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, object, text};
use crate::resource::{Resource, Subresource};
use crate::table::printers;

/// Every namespace has its name in this label, so that selectors can find it.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Namespace", "namespaces", "io.k8s.api.core.v1.Namespace")
            .cluster()
            .short(&["ns"])
            .status()
            .subresource(Subresource::Finalize)
            .selectable("status.phase", "/status/phase", "")
            .printer(printers::namespaces())
            .prepare(prepare)
            .build(),
    ]
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    let name = text(new, "/metadata/name").to_owned();
    if !name.is_empty()
        && let Some(labels) = object(new, "/metadata/labels")
    {
        labels.insert(NAME_LABEL.to_owned(), name.into());
    }
    if old.is_none() {
        default(new, "/spec", "finalizers", json!(["kubernetes"]));
        default(new, "/status", "phase", "Active");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_and_has_a_finalizer() {
        let mut namespace = json!({ "metadata": { "name": "a" } });
        prepare(&mut namespace, None);
        let expected = json!({
            "metadata": { "name": "a", "labels": { "kubernetes.io/metadata.name": "a" } },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        });
        assert_eq!(namespace, expected);
        let mut finalized = expected.clone();
        finalized["spec"] = json!({});
        prepare(&mut finalized, Some(&expected));
        assert_eq!(finalized["spec"], json!({}));
    }
}
