//! JSON merge patches that add or remove one finalizer and keep the others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Whether the object carries the finalizer.
pub fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|name| name == finalizer)
}

/// The patch that adds or removes the finalizer. A merge patch replaces the whole list, so it carries the
/// resourceVersion: the API server rejects it if the object has changed.
pub fn finalizer_patch(metadata: &ObjectMeta, finalizer: &str, present: bool) -> Value {
    let others = metadata
        .finalizers
        .iter()
        .flatten()
        .map(String::as_str)
        .filter(|name| *name != finalizer);
    let mut all: Vec<&str> = others.chain(present.then_some(finalizer)).collect();
    all.sort_unstable();
    json!({ "metadata": { "finalizers": all, "resourceVersion": metadata.resource_version } })
}
