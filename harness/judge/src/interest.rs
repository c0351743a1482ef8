//! Nodes that do not belong to the simulated cloud, and which of their fields must not change.

use std::collections::BTreeSet;

use mcm_api::keys;
use serde_json::{Value, json};

use crate::object::text;

/// Prefixes of the user agents of mcm and fakecloud, under which the API server records their writes.
const OURS: [&str; 2] = ["machine-controller-manager", "fakecloud"];

/// Prefix of the taints of Kubernetes controllers.
const KUBERNETES_TAINT_PREFIX: &str = "node.kubernetes.io/";

/// Prefix of the provider IDs of `fakecloud`.
const PROVIDER_PREFIX: &str = "fakecloud://";

/// Whether a node with that provider ID belongs to the simulated cloud.
pub fn is_ours(provider_id: Option<&str>) -> bool {
    provider_id.is_some_and(|id| id.starts_with(PROVIDER_PREFIX))
}

/// Whether a node belongs to the simulated cloud.
pub(crate) fn ours(node: &Value) -> bool {
    is_ours(Some(text(node, "/spec/providerID")))
}

/// Whether mcm's finalizer is on the node.
fn has_finalizer(node: &Value) -> bool {
    let finalizers = node.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| all.iter().any(|one| one == keys::NODE_FINALIZER))
}

/// Whether an entry of `managedFields` covers only the annotation with which mcm marks a node as not managed.
fn is_not_managed_annotation(entry: &Value) -> bool {
    let annotations = entry
        .pointer("/fieldsV1/f:metadata/f:annotations")
        .and_then(Value::as_object);
    let annotation = format!("f:{}", keys::NOT_MANAGED_ANNOTATION);
    let only = |object: Option<&Value>| {
        object
            .and_then(Value::as_object)
            .is_some_and(|fields| fields.len() == 1)
    };
    let marked = annotations.is_some_and(|keys| keys.keys().all(|key| *key == annotation || key == "."));
    marked && only(entry.get("fieldsV1")) && only(entry.pointer("/fieldsV1/f:metadata"))
}

/// The parts of a foreign node that must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Whether the API server records who wrote the node.
    pub(crate) managed: bool,
    /// Writes of mcm and fakecloud: manager, operation and time.
    pub(crate) writers: BTreeSet<String>,
    /// Spec, labels, and whether mcm's finalizer is set.
    pub(crate) fields: Value,
}

impl Interest {
    /// The protected state of a foreign node; `None`: the node belongs to the simulated cloud.
    pub fn in_foreign(node: &Value) -> Option<Self> {
        (!ours(node)).then(|| Self::of(node))
    }

    pub(crate) fn of(node: &Value) -> Self {
        let entries = node.pointer("/metadata/managedFields").and_then(Value::as_array);
        let by_us = |entry: &&Value| OURS.contains(&text(entry, "/manager")) && !is_not_managed_annotation(entry);
        let writers = entries.into_iter().flatten().filter(by_us);
        let mut spec = node["spec"].clone();
        if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| !text(taint, "/key").starts_with(KUBERNETES_TAINT_PREFIX));
        }
        if spec["taints"].as_array().is_some_and(Vec::is_empty)
            && let Some(spec) = spec.as_object_mut()
        {
            spec.remove("taints");
        }
        Self {
            managed: entries.is_some_and(|entries| !entries.is_empty()),
            writers: writers
                .map(|entry| {
                    let time = text(entry, "/time");
                    let subresource = text(entry, "/subresource");
                    format!(
                        "{} ({} {subresource} {time})",
                        text(entry, "/manager"),
                        text(entry, "/operation")
                    )
                })
                .collect(),
            fields: json!({
                "spec": spec,
                "labels": node["metadata"]["labels"],
                "finalizer": has_finalizer(node),
            }),
        }
    }
}
