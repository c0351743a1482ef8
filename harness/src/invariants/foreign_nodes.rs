//! A node that is none of our cloud's is nobody's business here: neither mcm nor fakecloud writes to it.
//!
//! Where the server tells who wrote what (`metadata.managedFields`), that decides. Where it does not, the node's spec and
//! labels must stay as they were first seen, less the taints by which Kubernetes' own controllers tell of its state.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::is_ours;
use crate::engine::observe::{Observation, Seen};
use crate::engine::world::{WorldState, text};

/// The beginnings of the user agents of our programs, under which a server keeps their writes.
const OURS: [&str; 2] = ["mcm", "fakecloud"];
/// Taints of Kubernetes' own controllers.
const OF_KUBERNETES: &str = "node.kubernetes.io/";

pub(super) fn check(world: &WorldState, observation: &Observation) -> Option<String> {
    let Seen::Applied(kind, node) = &observation.what else {
        return None;
    };
    if kind.kind != "Node" || ours(node) {
        return None;
    }
    let name = text(node, "/metadata/name");
    let first = world.foreign_nodes.get(name)?;
    let now = Interest::of(node);
    if let Some(manager) = now.writers.difference(&first.writers).next() {
        return Some(format!(
            "node {name}, which is not fakecloud's, was written by {manager}"
        ));
    }
    let told = !now.managed && !first.managed && now.fields != first.fields;
    told.then(|| {
        format!(
            "node {name}, which is not fakecloud's, had {}, and has {}",
            first.fields, now.fields
        )
    })
}

/// Whether a node is one of our cloud's.
fn ours(node: &Value) -> bool {
    is_ours(Some(text(node, "/spec/providerID")))
}

/// What of a foreign node must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Whether the server tells who wrote it.
    managed: bool,
    /// Writes of ours: who, what and when.
    writers: BTreeSet<String>,
    /// Spec and labels.
    fields: Value,
}

impl Interest {
    /// That of a node that is not ours; `None`: it is.
    pub fn in_foreign(node: &Value) -> Option<Self> {
        (!ours(node)).then(|| Self::of(node))
    }

    fn of(node: &Value) -> Self {
        let entries = node.pointer("/metadata/managedFields").and_then(Value::as_array);
        let by_us = |entry: &&Value| OURS.contains(&text(entry, "/manager"));
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
            fields: json!({ "spec": spec, "labels": node["metadata"]["labels"] }),
        }
    }
}
