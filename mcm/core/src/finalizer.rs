//! Finalizers as JSON merge patches: our entry is added or removed, others stay.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Whether the object carries the finalizer.
pub fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|name| name == finalizer)
}

/// The patch after which the object carries the finalizer, or no longer does. A merge patch writes
/// the whole list, hence the resourceVersion in it: a newer object refuses it.
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
