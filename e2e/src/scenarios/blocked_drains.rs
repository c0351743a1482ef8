//! A disruption budget blocks the drains of more machines than `mcm` reconciles concurrently: a new machine
//! becomes Running as fast as before.

use mcm_api::Phase;
use scenario::builder::{apply, boot_delay, create_machine, delete_machine, exists, field, phase, slack};
use scenario::{DurationExpression, Scenario, StageKind};
use serde_json::{Value, json};

use super::joining;

/// The default of `--concurrent-syncs` is 50.
const DRAINED: usize = 120;

pub(super) fn scenario() -> Scenario {
    let names: Vec<String> = (1..=DRAINED).map(|number| format!("m-{number}")).collect();
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "all-of-them" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "worker" } } },
    });
    let last = names.last().cloned().unwrap_or_default();
    Scenario::new(
        "blocked_drains",
        "More drains are blocked than mcm reconciles machines concurrently: a new machine becomes Running as fast as \
         the first one.",
    )
    .step(apply(budget))
    .step(create_machine("first"))
    .eventually(usual_creation_time(), phase("first", Phase::Running))
    .steps(names.iter().map(|name| create_machine(name)))
    .eventually(2 * joining(), phase(&last, Phase::Running))
    .steps(names.iter().map(|name| apply(pod(name))))
    .eventually(slack(), field("Pod", &format!("on-{last}"), "/status/phase", "Running"))
    .steps(names.iter().map(|name| delete_machine(name)))
    .eventually(slack(), phase(&last, Phase::Terminating))
    .step(create_machine("new"))
    .eventually(usual_creation_time(), phase("new", Phase::Running))
    .always(slack(), exists("Pod", &format!("on-{last}")))
    .only_on(
        [StageKind::Sim],
        "a small computer cannot start a hundred and twenty machines and their pods in time",
    )
}

/// How long a machine takes without other work in progress: the boot time of its VM plus some slack.
fn usual_creation_time() -> DurationExpression {
    boot_delay() + slack() / 12
}

fn pod(machine: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("on-{machine}"), "labels": { "app": "worker" } },
        "spec": { "nodeName": machine, "containers": [{ "name": "worker", "image": "worker" }] },
    })
}
