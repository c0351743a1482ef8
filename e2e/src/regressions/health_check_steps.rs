//! Steps and conditions that the scenarios of health checks share.

use std::collections::BTreeMap;

use mcm_api::keys;
use scenario::builder::{all, apply, field, slack, status_condition};
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::{Condition, DurationExpression, Scenario, Step};
use serde_json::{Value, json};

use crate::regressions::POOL;
use crate::regressions::worlds::{Pool, pool, settled, status};

/// The name of the usual check.
pub(crate) const CHECK: &str = "workers";

/// The usual check of a pool's machines: a node that is not Ready is unhealthy after two seconds. `spec` adds fields.
pub(crate) fn check(spec: Value) -> Step {
    check_named(CHECK, POOL, spec)
}

/// A check of the machines of that pool.
pub(crate) fn check_named(name: &str, pool: &str, spec: Value) -> Step {
    let mut object = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineHealthCheck",
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "name": pool } },
            "unhealthyConditions": not_ready("2s"),
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    apply(object)
}

/// The conditions of a node that is not Ready for that time.
pub(crate) fn not_ready(timeout: &str) -> Value {
    json!([
        { "type": "Ready", "status": "Unknown", "timeout": timeout },
        { "type": "Ready", "status": "False", "timeout": timeout },
    ])
}

/// A pool of so many Running machines, and the usual check of them, which has evaluated them.
pub(crate) fn checked(story: Scenario, machines: u32, spec: Value) -> Scenario {
    checked_pool(story, &pool(machines), spec)
}

/// The same for a pool.
pub(crate) fn checked_pool(story: Scenario, pool: &Pool, spec: Value) -> Scenario {
    settled(story.health_checks(), std::slice::from_ref(pool))
        .step(check(spec))
        .eventually(slack(), healthy(pool.machines, pool.machines))
}

/// The check has so many machines, of which so many are healthy.
pub(crate) fn healthy(expected: u32, healthy: u32) -> Condition {
    all([
        check_status("expectedMachines", expected),
        check_status("currentHealthy", healthy),
    ])
}

/// A field in the status of the usual check.
pub(crate) fn check_status(name: &str, is: impl Into<Value>) -> Condition {
    field("MachineHealthCheck", CHECK, &format!("/status/{name}"), is)
}

/// A condition of the usual check.
pub(crate) fn check_condition(type_: &str, is: &str, reason: &str) -> Condition {
    status_condition(
        "MachineHealthCheck",
        CHECK,
        type_,
        &[("status", is), ("reason", reason)],
    )
}

/// A condition of a machine.
pub(crate) fn machine_condition(machine: &str, type_: &str, is: &str) -> Condition {
    status_condition("Machine", machine, type_, &[("status", is)])
}

/// A condition of a machine with its reason.
pub(crate) fn machine_reason(machine: &str, type_: &str, is: &str, reason: &str) -> Condition {
    status_condition("Machine", machine, type_, &[("status", is), ("reason", reason)])
}

/// A condition of a node.
pub(crate) fn node_condition(node: &str, type_: &str, is: &str) -> Condition {
    status_condition("Node", node, type_, &[("status", is)])
}

/// The replacement of the machine by its owner is requested.
pub(crate) fn requested(machine: &str) -> Condition {
    machine_condition(machine, keys::OWNER_REMEDIATED, "False")
}

/// The machine failed its check.
pub(crate) fn failed(machine: &str) -> Condition {
    machine_condition(machine, keys::HEALTH_CHECK_SUCCEEDED, "False")
}

/// The machine passed its check.
pub(crate) fn passed(machine: &str) -> Condition {
    machine_condition(machine, keys::HEALTH_CHECK_SUCCEEDED, "True")
}

/// The usual pool has this number of available machines, all of them healthy.
pub(crate) fn recovered(machines: u32) -> Condition {
    all([status(POOL, "availableReplicas", machines), healthy(machines, machines)])
}

/// From the last sign of life until the usual check has acted: the node's grace period, the timeout and a pass.
pub(crate) fn acting() -> DurationExpression {
    scenario::builder::node_grace() + 2 * slack()
}

/// A user requests the replacement of the first machine with the new template.
pub(crate) fn remediate_new() -> Step {
    let requested = (keys::REMEDIATE_MACHINE_ANNOTATION.to_owned(), Some("true".to_owned()));
    DeferredTarget {
        called: "new".to_owned(),
        among: "md-a-*-*".to_owned(),
        nth: 0,
        user_action: UserAction::Annotate(BTreeMap::from([requested])),
        may_miss: false,
    }
    .into()
}
