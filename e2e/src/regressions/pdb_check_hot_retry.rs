//! R30 `pdb-check-hot-retry`: with one misconfigured disruption budget the controller sent evictions every few
//! seconds and overloaded the API server.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule};
use scenario::builder::{
    all, api_fault_by, apply, budget, delete_machine, deployment, fault_hits, field, keep, kubelet, machine_gone, pods,
    seconds, slack, wait, workload,
};
use scenario::expect::PodState;
use scenario::step::{Client, KubeletAction};
use serde_json::json;

use super::{POOL, delayed, joining, story, well};

/// The number of machines, and of those that are deleted.
const MACHINES: u32 = 12;
const DELETED: u32 = 6;
/// The number of pods per machine.
const PODS: u32 = 3;

pub(super) fn entry() -> Entry {
    Entry {
        id: "R30",
        name: "pdb-check-hot-retry",
        origin: "MCM#703, MCM PR#949, MCM PR#979",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R30",
                scenario: wrong_budget(),
                mutant: true,
                breaks: &["I18"],
            },
            Case {
                id: "R30/b",
                scenario: ending(),
                mutant: true,
                breaks: &[EXPECTED],
            },
        ],
        open: "three pods a machine, not fifteen",
    }
}

fn wrong_budget() -> Scenario {
    let first = |count: u32| (1..=count).map(name);
    let ready = || pods("web").are(PodState::Ready).exactly((MACHINES * PODS) as usize);
    story(
        "r30-wrong-budget",
        "A disruption budget is unsatisfiable while machines are deleted: mcm sends few requests, and notices the fix \
         soon.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(MACHINES))
    .eventually(joining(), all(first(MACHINES).map(|name| well(&name))))
    .step(deployment(workload("web").replicas(MACHINES * PODS)))
    .step(budget("web", 0))
    .eventually(slack(), ready())
    .steps(first(DELETED).map(|name| delete_machine(&name)))
    .step(wait(seconds(20 * 60)))
    .always(seconds(1), ready())
    .step(budget("web", MACHINES * PODS))
    .eventually(seconds(120), all(first(DELETED).map(|name| machine_gone(&name))))
}

fn name(number: u32) -> String {
    format!("{POOL}-{number}")
}

/// The kubelet is paused for two minutes, so that the pod stays terminating. Each of mcm's evictions of it is a
/// hit.
fn ending() -> Scenario {
    let evictions = Rule {
        matches: Match {
            resource: Some(Pattern::new("pods/eviction")),
            ..Match::default()
        },
        ..Rule::new("evictions", delayed(Duration::from_millis(1)))
    };
    story(
        "r30-b-ending-pod",
        "A pod takes two minutes to terminate after its eviction: mcm does not evict it again.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well(&name(1)))
    .step(apply(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "slow", "labels": { "app": "slow" } },
        "spec": {
            "nodeName": name(1),
            "terminationGracePeriodSeconds": 300,
            "containers": [{ "name": "slow", "image": "slow" }],
        },
    })))
    .eventually(slack(), field("Pod", "slow", "/status/phase", "Running"))
    .step(api_fault_by(Client::Mcm, evictions))
    .step(kubelet(&name(1), KubeletAction::Stop))
    .step(delete_machine(&name(1)))
    .eventually(slack(), fault_hits("evictions", 1))
    .never(seconds(120), fault_hits("evictions", 2))
    .step(kubelet(&name(1), KubeletAction::Start))
    .eventually(seconds(600), machine_gone(&name(1)))
}
