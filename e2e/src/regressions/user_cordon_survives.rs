//! R75 `user-cordon-survives`: an operator's cordon was reverted within minutes, because it could have been
//! left by a preservation.

use harness::regression::{Confidence, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::builder::{all, annotate, field, kubelet, phase, preserve_timeout, seconds, slack, wait};
use scenario::step::KubeletAction;
use scenario::{Condition, Scenario, Step};
use serde_json::{Value, json};

use super::story;
use super::worlds::{case, failing, merge, pool, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R75",
        name: "user-cordon-survives",
        origin: "MCM PR#1107, MCM PR#1108, MCM PR#1119",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![case("R75", cordons(), &["I10", "I11"])],
        open: "",
    }
}

fn cordon(node: &str) -> Step {
    merge("Node", node, json!({ "spec": { "unschedulable": true } }))
}

fn cordoned(node: &str) -> Condition {
    field("Node", node, "/spec/unschedulable", true)
}

fn cordons() -> Scenario {
    let story = story(
        "r75-cordons",
        "Nodes are cordoned, one of them of a preserved machine that recovers: they stay cordoned, and only our taint \
         is removed.",
    );
    settled(story, &[pool(3)])
        .step(cordon("md-a-1"))
        .step(wait(seconds(30 * 60)))
        .step(annotate("Machine", "md-a-2", keys::PRESERVE_ANNOTATION, "now"))
        .eventually(slack(), phase("md-a-2", Phase::RunningPreserved))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(failing(), phase("md-a-2", Phase::FailedPreserved))
        .step(cordon("md-a-2"))
        .step(kubelet("md-a-2", KubeletAction::Start))
        .eventually(slack(), phase("md-a-2", Phase::RunningPreserved))
        .eventually(preserve_timeout(), phase("md-a-2", Phase::Running))
        .eventually(slack(), field("Machine", "md-a-2", "/status/preservation", Value::Null))
        .eventually(seconds(1), all(["md-a-1", "md-a-2"].map(cordoned)))
        .quiet_end(slack())
}
