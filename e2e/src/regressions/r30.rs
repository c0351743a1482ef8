//! R30 `pdb-check-hot-retry`: one wrong disruption budget had the controller ask for evictions every few seconds, and the
//! API server suffered.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{
    all, api_fault_by, apply, budget, delete_machine, deployment, field, keep, kubelet, machine_gone, pods, seconds,
    slack, struck, wait, workload,
};
use harness::scenario::disturb::Client;
use harness::scenario::disturb::api::{Match, Pattern, Rule};
use harness::scenario::expect::PodState;
use harness::scenario::step::KubeletAction;
use serde_json::json;

use super::{POOL, delayed, joining, story, well};

const MACHINES: [&str; 4] = ["md-a-1", "md-a-2", "md-a-3", "md-a-4"];

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
        open: "four machines, not twenty",
    }
}

fn wrong_budget() -> Scenario {
    story(
        "r30-wrong-budget",
        "A budget can never be met while machines are deleted: few requests are made, and its cure is noticed soon.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(4))
    .eventually(joining(), all(MACHINES.map(well)))
    .step(deployment(workload("web").replicas(15)))
    .step(budget("web", 0))
    .eventually(slack(), pods("web").are(PodState::Ready).exactly(15))
    .steps([delete_machine("md-a-1"), delete_machine("md-a-2")])
    .step(wait(seconds(30 * 60)))
    .always(seconds(1), pods("web").are(PodState::Ready).exactly(15))
    .step(budget("web", 15))
    .eventually(seconds(120), all(["md-a-1", "md-a-2"].map(machine_gone)))
}

/// The kubelet does not answer for two minutes, so that the pod goes on ending. Each of mcm's evictions of it is a hit.
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
        "A pod takes two minutes to end after its eviction: nobody evicts it again.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well(MACHINES[0]))
    .step(apply(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "slow", "labels": { "app": "slow" } },
        "spec": {
            "nodeName": MACHINES[0],
            "terminationGracePeriodSeconds": 300,
            "containers": [{ "name": "slow", "image": "slow" }],
        },
    })))
    .eventually(slack(), field("Pod", "slow", "/status/phase", "Running"))
    .step(api_fault_by(Client::Mcm, evictions))
    .step(kubelet(MACHINES[0], KubeletAction::Stop))
    .step(delete_machine(MACHINES[0]))
    .eventually(slack(), struck("evictions", 1))
    .never(seconds(120), struck("evictions", 2))
    .step(kubelet(MACHINES[0], KubeletAction::Start))
    .eventually(seconds(600), machine_gone(MACHINES[0]))
}
