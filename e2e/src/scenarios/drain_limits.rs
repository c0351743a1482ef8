//! A disruption budget blocks the eviction of a pod on each of four machines, which limit their drains
//! differently: by attempts, by time, by both, and not at all.

use mcm_api::Phase;
use scenario::builder::{all, apply, delete_machine, drain_timeout, exists, field, not, phase, slack, vm_count};
use scenario::{Scenario, fixtures};
use serde_json::{Value, json};

use super::{joining, nothing_left};

const NONE: &str = "m-none";
const RETRIES: &str = "m-retries";
const TIMEOUT: &str = "m-timeout";
const BOTH: &str = "m-both";

pub(super) fn scenario() -> Scenario {
    let limits = [
        (NONE, json!({})),
        (RETRIES, json!({ "maxEvictRetries": 2 })),
        (TIMEOUT, json!({ "drainTimeout": "4s" })),
        (BOTH, json!({ "maxEvictRetries": 100, "drainTimeout": "4s" })),
    ];
    let machines = [NONE, RETRIES, TIMEOUT, BOTH];
    Scenario::new(
        "drain_limits",
        "A disruption budget blocks evictions: each drain ends at its machine's limit of attempts or time, whichever \
         is reached first, or at the default timeout.",
    )
    .steps(limits.map(|(name, limits)| apply(machine(name, &limits))))
    .eventually(joining(), all(machines.map(|machine| phase(machine, Phase::Running))))
    .step(apply(budget()))
    // The pod is never scheduled and so never runs, so that the budget counts as satisfiable.
    .step(apply(pod("waiting", &json!({ "schedulerName": "nobody" }))))
    .steps(machines.map(|machine| apply(pod(machine, &json!({ "nodeName": machine })))))
    .eventually(
        slack(),
        all(machines.map(|machine| field("Pod", machine, "/status/phase", "Running"))),
    )
    .step(delete_machine(NONE))
    .always(drain_timeout() / 2, all([exists("Pod", NONE), vm_count(NONE, 1)]))
    .meanwhile()
    .steps([RETRIES, TIMEOUT, BOTH].map(delete_machine))
    // Twice the attempts, because a restarted process counts from zero.
    .eventually(
        3 * slack(),
        all([RETRIES, TIMEOUT, BOTH].map(|machine| all([not(exists("Pod", machine)), nothing_left(machine)]))),
    )
    .eventually(
        drain_timeout() + slack(),
        all([not(exists("Pod", NONE)), nothing_left(NONE)]),
    )
}

fn machine(name: &str, limits: &Value) -> Value {
    let mut machine = fixtures::machine(name, "");
    merge(&mut machine["spec"], limits);
    machine
}

fn pod(name: &str, place: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "worker" } },
        "spec": { "containers": [{ "name": "worker", "image": "worker" }] },
    });
    merge(&mut pod["spec"], place);
    pod
}

fn merge(into: &mut Value, more: &Value) {
    for (field, value) in more.as_object().into_iter().flatten() {
        into[field] = value.clone();
    }
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "always-four" },
        "spec": { "minAvailable": 5, "selector": { "matchLabels": { "app": "worker" } } },
    })
}
