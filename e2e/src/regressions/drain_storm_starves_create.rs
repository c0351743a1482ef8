//! R26 `drain-storm-starves-create`: while a disruption budget blocked more than a hundred drains, new machines
//! waited for hours.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, apply, create_machine, delete_machine, exists, field, keep, machine_gone, phase, seconds, slack, wait,
};
use serde_json::json;

use super::{POOL, joining, story, well};

/// The number of machines that mcm reconciles concurrently.
const WORKERS: u32 = 50;
/// More than that.
const DRAINED: u32 = 60;

pub(super) fn entry() -> Entry {
    Entry {
        id: "R26",
        name: "drain-storm-starves-create",
        origin: "MCM#943, MCM#490, MCM#621",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R26",
                scenario: storm(
                    "r26-drain-storm",
                    "Sixty drains are blocked: a new machine is created without delay, and each drain ends at its \
                     timeout.",
                    DRAINED,
                ),
                mutant: true,
                breaks: &["I14", EXPECTED],
            },
            Case {
                id: "R26/b",
                scenario: storm(
                    "r26-b-one-queue",
                    "As many drains are blocked as mcm reconciles concurrently: a new machine is created without \
                     delay.",
                    WORKERS,
                ),
                mutant: true,
                breaks: &["I14", EXPECTED],
            },
        ],
        open: "sixty drains of a quarter of an hour, not a hundred and ten of two",
    }
}

fn storm(name: &str, about: &str, drained: u32) -> Scenario {
    let names: Vec<String> = (1..=drained).map(|number| format!("md-a-{number}")).collect();
    let last = names.last().cloned().unwrap_or_default();
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "all-of-them" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "worker" } } },
    });
    let pod = |machine: &String| {
        apply(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": format!("on-{machine}"), "labels": { "app": "worker" } },
            "spec": { "nodeName": machine, "containers": [{ "name": "worker", "image": "worker" }] },
        }))
    };
    story(name, about)
        .keeper(POOL, 0, json!({ "drainTimeout": "15m0s" }))
        .step(apply(budget))
        .step(keep(drained))
        .eventually(2 * joining(), all(names.iter().map(|name| well(name))))
        .steps(names.iter().map(pod))
        .eventually(slack(), field("Pod", &format!("on-{last}"), "/status/phase", "Running"))
        .step(keep(0))
        .eventually(slack(), all(names.iter().map(|name| phase(name, Phase::Terminating))))
        .step(wait(seconds(300)))
        .step(create_machine("new"))
        .eventually(seconds(300), phase("new", Phase::Running))
        .always(seconds(5 * 60), exists("Pod", &format!("on-{last}")))
        .eventually(seconds(8 * 60), all(names.iter().map(|name| machine_gone(name))))
        .step(delete_machine("new"))
        .eventually(slack(), machine_gone("new"))
}
