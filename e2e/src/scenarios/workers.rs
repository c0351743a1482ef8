//! Pods of no owner on a machine's node, and the budget that does not let them go: what drains meet.

use serde_json::{Value, json};

/// A pod on that machine's node, which the budget of [`budget`] is about.
pub(super) fn worker_on(machine: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "worker", "labels": { "app": "worker" } },
        "spec": { "nodeName": machine, "containers": [{ "name": "worker", "image": "worker" }] },
    })
}

/// So many of the pods must stay.
pub(super) fn budget(least: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "always-one" },
        "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": "worker" } } },
    })
}
