//! R63 `node-finalizer-orphan`: a node in deletion kept the controller's finalizer, and no controller was left to remove
//! it.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{
    all, budget, deployment, keep, machine_gone, node_gone, phase, pods, seconds, slack, wait, workload,
};
use harness::scenario::expect::PodState;
use mcm_api::{Phase, keys};
use serde_json::json;

use super::{POOL, joining, merge, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R63",
        name: "node-finalizer-orphan",
        origin: "MCM#1080, MCM PR#1097",
        group: Group::Loops,
        confidence: Confidence::Symptom,
        cases: vec![Case {
            id: "R63",
            scenario: label_taken(),
            mutant: true,
            breaks: &["I16", "I6", EXPECTED],
        }],
        open: "a crash at each stage: `drydock crash` does that to every scenario",
    }
}

/// Somebody takes the label by which the machine knows its node while the machine is drained.
fn label_taken() -> Scenario {
    let unlabelled = json!({ "metadata": { "labels": { keys::NODE_LABEL: null } } });
    story(
        "r63-label-taken",
        "A machine loses the label that names its node while it is drained: the drain goes on, and the node goes with it.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(2))
    .eventually(joining(), all(["md-a-1", "md-a-2"].map(well)))
    .step(deployment(workload("web").replicas(4)))
    .step(budget("web", 0))
    .eventually(slack(), pods("web").on("md-a-2").are(PodState::Ready).at_least(1))
    .step(keep(1))
    .eventually(slack(), phase("md-a-2", Phase::Terminating))
    .step(wait(seconds(30)))
    .step(merge("Machine", "md-a-2", unlabelled))
    .always(seconds(300), pods("web").on("md-a-2").are(PodState::Ready).at_least(1))
    .step(budget("web", 4))
    .eventually(seconds(300), all([machine_gone("md-a-2"), node_gone("md-a-2")]))
}
