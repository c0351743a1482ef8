//! Unowned pods on a machine's node, and the disruption budget that blocks their eviction.

use serde_json::{Value, json};

/// A pod on this machine's node, which the budget of [`budget`] selects.
pub(super) fn worker_on(machine: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "worker", "labels": { "app": "worker" } },
        "spec": { "nodeName": machine, "containers": [{ "name": "worker", "image": "worker" }] },
    })
}

/// A budget with this number of pods that must stay available.
pub(super) fn budget(least: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "always-one" },
        "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": "worker" } } },
    })
}
