//! Machines, nodes and checks for the tables.

mod decisions;
mod health;
mod spellings;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use mcm_api::{Machine, MachineHealthCheck};
use serde_json::{Value, json};

use super::{NodeState, Target};

/// The time of every decision.
fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// The text of a time so many seconds before [`now`].
fn ago(seconds: i64) -> String {
    now()
        .checked_sub(SignedDuration::from_secs(seconds))
        .unwrap()
        .to_string()
}

fn later(seconds: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// A Running machine of a set, created a day ago, whose conditions were copied from its Node.
fn machine(name: &str) -> Machine {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "garden", "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": ago(86_400), "labels": { "node": name, "name": "pool" },
            "ownerReferences": [{
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "pool-1", "uid": "u",
                "controller": true,
            }],
        },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        "status": {
            "currentStatus": { "phase": "Running", "lastUpdateTime": ago(80_000) },
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": ago(80_000) }],
        },
    }))
    .unwrap()
}

/// The machine with these fields.
fn with(machine: Machine, pointer: &str, value: Value) -> Machine {
    let mut object = serde_json::to_value(machine).unwrap();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    serde_json::from_value(object).unwrap()
}

fn annotated(machine: Machine, annotations: Value) -> Machine {
    with(machine, "/metadata/annotations", annotations)
}

/// A Node with these conditions: type, status, and for how many seconds.
fn node(name: &str, conditions: &[(&str, &str, i64)]) -> Arc<Node> {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status, seconds)| json!({ "type": type_, "status": status, "lastTransitionTime": ago(*seconds) }))
        .collect();
    let node = json!({
        "metadata": { "name": name, "creationTimestamp": ago(86_000) },
        "status": { "conditions": conditions },
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

fn target(machine: Machine, conditions: &[(&str, &str, i64)]) -> Target {
    let name = machine.metadata.name.clone().unwrap_or_default();
    Target {
        machine: Arc::new(machine),
        node: NodeState::Present(node(&name, conditions)),
    }
}

fn without_node(machine: Machine) -> Target {
    Target {
        machine: Arc::new(machine),
        node: NodeState::Absent,
    }
}

/// A check that finds machines unhealthy whose node has not been Ready for five minutes.
fn check(spec: Value) -> MachineHealthCheck {
    let mut object = json!({
        "metadata": { "name": "workers", "namespace": "garden", "uid": "c", "generation": 3 },
        "spec": {
            "selector": { "matchLabels": { "name": "pool" } },
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "timeout": "5m" },
                { "type": "Ready", "status": "False", "timeout": "5m" },
            ],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}
