//! Namespaces.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, items, object, text};
use super::syntax;
use crate::resource::{Resource, Subresource};
use crate::status::FieldError;
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
            .validate(validate)
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

/// The phase follows the deletion, and finalizers have a domain.
fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(old) = old else { return errors };
    let deleting = !text(new, "/metadata/deletionTimestamp").is_empty();
    let (phase, wanted, state) = match deleting {
        true => (text(new, "/status/phase"), "Terminating", "not empty"),
        false => (text(new, "/status/phase"), "Active", "empty"),
    };
    if phase != wanted && phase != text(old, "/status/phase") {
        let why = format!("may only be '{wanted}' if `deletionTimestamp` is {state}");
        errors.push(FieldError::invalid("status.Phase", phase, why));
    }
    for (index, finalizer) in items(new, "/spec/finalizers").iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        let path = format!("spec.finalizers[{index}]");
        let before = errors.len();
        syntax::qualified_name(&mut errors, &path, finalizer);
        if errors.len() == before && !finalizer.contains('/') && finalizer != "kubernetes" {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path, finalizer, why));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_and_phases_are_checked() {
        let namespace = |finalizer: &str, phase: &str| json!({ "spec": { "finalizers": [finalizer] }, "status": { "phase": phase } });
        let old = namespace("kubernetes", "Active");
        let fields = |new: Value| -> Vec<String> {
            validate(&new, Some(&old))
                .into_iter()
                .map(|error| error.field)
                .collect()
        };
        assert_eq!(fields(namespace("x.io/a", "Active")), [""; 0]);
        assert_eq!(
            fields(namespace("plain", "Terminating")),
            ["status.Phase", "spec.finalizers[0]"]
        );
    }

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
