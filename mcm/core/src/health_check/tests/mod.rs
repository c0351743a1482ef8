//! Machines, nodes and checks for the tables.

mod decisions;
mod health;
mod requests;
mod spellings;
mod withdraw;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use mcm_api::health_check::MachineHealthCheckStatus;
use mcm_api::{Machine, MachineHealthCheck};
use serde_json::{Value, json};

use super::{Action, NodeState, Plan, Settings, Target, View, decide, normalize};

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

fn up(name: &str) -> Target {
    target(machine(name), &[("Ready", "True", 9000)])
}

fn down(name: &str) -> Target {
    target(machine(name), &[("Ready", "Unknown", 400)])
}

fn pending(name: &str) -> Target {
    target(machine(name), &[("Ready", "Unknown", 100)])
}

fn with_owner(machine: Machine) -> Machine {
    let conditions = json!([
        { "type": "Ready", "status": "Unknown" },
        { "type": "HealthCheckSucceeded", "status": "False" },
        { "type": "OwnerRemediated", "status": "False" },
    ]);
    with(machine, "/status/conditions", conditions)
}

fn view(check: MachineHealthCheck, targets: Vec<Target>) -> View {
    View {
        check,
        targets,
        ..View::default()
    }
}

fn plan(view: &View) -> Plan {
    let policy = normalize(&view.check.spec, "garden");
    decide(
        view,
        policy.as_ref().map_err(Vec::as_slice),
        &Settings::default(),
        now(),
    )
}

fn status(view: &View, plan: &Plan) -> MachineHealthCheckStatus {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::WriteStatus(status) => Some((**status).clone()),
        _ => None,
    });
    written.unwrap_or_else(|| view.check.status.clone())
}

fn condition(status: &MachineHealthCheckStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |found| format!("{}/{}", found.status, found.reason))
}

/// The machines whose owner is asked.
fn asked(plan: &Plan) -> Vec<String> {
    let asks = |action: &Action| match action {
        Action::WriteConditions {
            machine,
            conditions,
            remediated,
        } => {
            let asked = conditions
                .iter()
                .any(|one| one.type_ == "OwnerRemediated" && one.status == "False");
            (asked && remediated.is_some()).then(|| machine.clone())
        }
        _ => None,
    };
    plan.actions.iter().filter_map(asks).collect()
}

fn events(plan: &Plan) -> Vec<&'static str> {
    let event = |action: &Action| match action {
        Action::RecordEvent { reason, .. } => Some(*reason),
        _ => None,
    };
    plan.actions.iter().filter_map(event).collect()
}
