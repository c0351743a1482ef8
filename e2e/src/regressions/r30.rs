//! R30 `pdb-check-hot-retry`: one wrong disruption budget had the controller ask for evictions every few seconds, and the
//! API server suffered.

use harness::regression::{Case, Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{
    all, budget, delete_machine, deployment, keep, machine_gone, pods, seconds, slack, wait, workload,
};
use harness::scenario::expect::PodState;

use super::{POOL, joining, story, well};

const MACHINES: [&str; 4] = ["md-a-1", "md-a-2", "md-a-3", "md-a-4"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R30",
        name: "pdb-check-hot-retry",
        origin: "MCM#703, MCM PR#949, MCM PR#979",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R30",
            scenario: wrong_budget(),
            mutant: true,
            breaks: &["I18"],
        }],
        open: "evictions of pods that end already; four machines, not twenty",
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
