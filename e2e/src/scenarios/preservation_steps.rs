//! Steps and conditions that the preservation scenarios share.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, any, apply, field, health_timeout, node_grace, not, patch_status, phase, slack, status_condition,
    vm_count,
};
use scenario::step::Annotate;
use scenario::{Condition, DurationExpression, Step};
use serde_json::{Value, json};

use super::joining;
use crate::regressions::POOL;
use crate::regressions::worlds::Pool;

/// The set of these scenarios.
pub(super) const SET: &str = "ms-a";
/// A preservation timeout that outlasts the run on any stage.
const LONG: &str = "24h0m0s";

/// A machine with the set's labels.
pub(super) fn member(name: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name, "labels": { "name": SET } },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
    }))
}

/// The set, which adopts existing machines.
pub(super) fn set(replicas: u32, maximum: u32) -> Step {
    set_of(replicas, maximum, json!({}))
}

/// The same, with preservations that outlast the run on any stage.
pub(super) fn long_set(replicas: u32, maximum: u32) -> Step {
    set_of(replicas, maximum, json!({ "machinePreserveTimeout": LONG }))
}

fn set_of(replicas: u32, maximum: u32, mut spec: Value) -> Step {
    spec["class"] = json!({ "kind": "MachineClass", "name": "class-a" });
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": { "name": SET },
        "spec": {
            "replicas": replicas,
            "autoPreserveFailedMax": maximum,
            "selector": { "matchLabels": { "name": SET } },
            "template": { "metadata": { "labels": { "name": SET } }, "spec": spec },
        },
    }))
}

/// A world whose set has these machines, all Running. Their preservations outlast the run: on a machine that is
/// short of CPU, two machines may fail minutes apart.
pub(super) fn pool(name: &str, about: &str, machines: &[&str], maximum: u32) -> Scenario {
    pool_of(name, about, machines, |replicas| long_set(replicas, maximum))
}

/// The same, with preservations that expire after the preservation timeout of the stage.
pub(super) fn expiring_pool(name: &str, about: &str, machines: &[&str], maximum: u32) -> Scenario {
    pool_of(name, about, machines, |replicas| set(replicas, maximum))
}

fn pool_of(name: &str, about: &str, machines: &[&str], set: impl FnOnce(u32) -> Step) -> Scenario {
    let replicas = u32::try_from(machines.len()).unwrap_or_default();
    Scenario::new(name, about)
        .steps(machines.iter().map(|machine| member(machine)))
        .eventually(
            joining(),
            all(machines.iter().map(|machine| phase(machine, Phase::Running))),
        )
        .step(set(replicas))
        .eventually(slack(), field("MachineSet", SET, "/status/readyReplicas", replicas))
}

pub(super) fn preserve(kind: &str, name: &str, value: &str) -> Step {
    annotate(kind, name, keys::PRESERVE_ANNOTATION, value)
}

pub(super) fn remove(kind: &str, name: &str, key: &str) -> Step {
    Step::Annotate(Annotate {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        annotations: [(key.to_owned(), None)].into(),
    })
}

pub(super) fn annotation(kind: &str, name: &str, key: &str, value: impl Into<Value>) -> Condition {
    let pointer = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    field(kind, name, &pointer, value)
}

/// The time from the last sign of life to Failed.
pub(super) fn failing() -> DurationExpression {
    node_grace() + health_timeout() + slack()
}

/// The machine is Failed and preserved, and its node is protected from cluster-autoscaler.
pub(super) fn kept(machine: &str) -> Condition {
    all([
        phase(machine, Phase::FailedPreserved),
        not(expiry(machine, Value::Null)),
        annotation("Node", machine, keys::SCALE_DOWN_DISABLED_ANNOTATION, "true"),
        tainted(machine),
        vm_count(machine, 1),
    ])
}

/// The node does not accept new pods; other taints are permitted.
pub(super) fn tainted(machine: &str) -> Condition {
    any((0..4).map(|index| {
        field(
            "Node",
            machine,
            &format!("/spec/taints/{index}/key"),
            keys::PRESERVED_TAINT,
        )
    }))
}

/// No trace of a preservation is left.
pub(super) fn forgotten(machine: &str) -> Condition {
    all([
        phase(machine, Phase::Running),
        expiry(machine, Value::Null),
        field("Machine", machine, "/status/preservation", Value::Null),
        annotation("Node", machine, keys::SCALE_DOWN_DISABLED_ANNOTATION, Value::Null),
        annotation(
            "Node",
            machine,
            keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION,
            Value::Null,
        ),
    ])
}

/// The machine is Running and preserved by request, and its Node reports it.
pub(super) fn kept_running(machine: &str) -> Condition {
    all([
        phase(machine, Phase::RunningPreserved),
        node_says(machine, "True", "Preserved by user."),
    ])
}

/// The Node has the condition `Preserved` with this status and reason, which is written after the machine's
/// phase.
pub(super) fn node_says(machine: &str, status: &str, reason: &str) -> Condition {
    status_condition(
        "Node",
        machine,
        keys::PRESERVED_CONDITION,
        &[("status", status), ("reason", reason)],
    )
}

/// An operator sets the expiry.
pub(super) fn until(machine: &str, time: &str) -> Step {
    patch_status(
        "Machine",
        machine,
        json!({ "status": { "currentStatus": { "preserveExpiryTime": time } } }),
    )
}

/// A preservation that outlasts the run on any stage.
pub(super) fn long(pool: Pool) -> Pool {
    Pool {
        kept_for: Some(LONG),
        ..pool
    }
}

/// This number of failed machines of the pool is preserved.
pub(super) fn preserved(count: impl Into<Value>) -> Condition {
    field("MachineDeployment", POOL, "/status/preservedFailedReplicas", count)
}

pub(super) fn expiry(machine: &str, is: impl Into<Value>) -> Condition {
    field("Machine", machine, "/status/currentStatus/preserveExpiryTime", is)
}
