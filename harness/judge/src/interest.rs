//! Nodes that do not belong to the simulated cloud, and what of them must not change.

use std::collections::BTreeSet;

use mcm_api::keys;
use serde_json::{Value, json};

use crate::object::text;

/// The beginnings of the user agents of our programs, under which a server keeps their writes.
const OURS: [&str; 2] = ["mcm", "fakecloud"];

/// Taints of Kubernetes' own controllers.
const OF_KUBERNETES: &str = "node.kubernetes.io/";

/// What a provider id of fakecloud's begins with.
const PROVIDER: &str = "fakecloud://";

/// Whether a node with that provider id is one of fakecloud's.
pub fn is_ours(provider_id: Option<&str>) -> bool {
    provider_id.is_some_and(|id| id.starts_with(PROVIDER))
}

/// Whether a node is one of our cloud's.
pub(crate) fn ours(node: &Value) -> bool {
    is_ours(Some(text(node, "/spec/providerID")))
}

/// Whether our finalizer is on the node.
fn is_held(node: &Value) -> bool {
    let finalizers = node.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| all.iter().any(|one| one == keys::NODE_FINALIZER))
}

/// Whether an entry of `managedFields` is about the mark alone by which a controller says that a node is not its business.
fn is_mark(entry: &Value) -> bool {
    let annotations = entry
        .pointer("/fieldsV1/f:metadata/f:annotations")
        .and_then(Value::as_object);
    let mark = format!("f:{}", keys::NOT_MANAGED_ANNOTATION);
    let only = |object: Option<&Value>| {
        object
            .and_then(Value::as_object)
            .is_some_and(|fields| fields.len() == 1)
    };
    let marked = annotations.is_some_and(|keys| keys.keys().all(|key| *key == mark || key == "."));
    marked && only(entry.get("fieldsV1")) && only(entry.pointer("/fieldsV1/f:metadata"))
}

/// What of a foreign node must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Whether the server tells who wrote it.
    pub(crate) managed: bool,
    /// Writes of ours: who, what and when.
    pub(crate) writers: BTreeSet<String>,
    /// Spec and labels, and whether our finalizer holds it.
    pub(crate) fields: Value,
}

impl Interest {
    /// That of a node that is not ours; `None`: it is.
    pub fn in_foreign(node: &Value) -> Option<Self> {
        (!ours(node)).then(|| Self::of(node))
    }

    pub(crate) fn of(node: &Value) -> Self {
        let entries = node.pointer("/metadata/managedFields").and_then(Value::as_array);
        let by_us = |entry: &&Value| OURS.contains(&text(entry, "/manager")) && !is_mark(entry);
        let writers = entries.into_iter().flatten().filter(by_us);
        let mut spec = node["spec"].clone();
        if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| !text(taint, "/key").starts_with(OF_KUBERNETES));
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
                "held": is_held(node),
            }),
        }
    }
}
