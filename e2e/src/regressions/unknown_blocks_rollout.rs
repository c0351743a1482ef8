//! R21 `unknown-blocks-rollout`: during a rollout an Unknown machine of the old set never became Failed.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{health_timeout, kubelet, machine_gone, node_grace, seconds, slack, wait};
use scenario::step::KubeletAction;
use serde_json::json;

use super::story;
use super::worlds::{at_size, case, class, pool, settled, spec, to_class, updated};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R21",
        name: "unknown-blocks-rollout",
        origin: "MCM PR#733",
        group: Group::Freeze,
        confidence: Confidence::Cause,
        cases: vec![case("R21", unknown_during_rollout(), &["I13", "I11"])],
        open: "",
    }
}

/// A rollout is paused with machines of both sets, so that the rollout does not delete the machine whose
/// kubelet stops for good.
fn unknown_during_rollout() -> Scenario {
    let story = story(
        "r21-unknown-meanwhile",
        "A node stops permanently during a paused rollout: its machine is Failed in time, and replaced.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(to_class("class-b"))
        .eventually(slack(), updated(1))
        .step(spec(json!({ "paused": true })))
        .step(wait(seconds(30)))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(node_grace() + health_timeout() + 2 * slack(), machine_gone("md-a-2"))
        .step(wait(seconds(600)))
        .step(spec(json!({ "paused": false })))
        .eventually(seconds(45 * 60), at_size(3))
}
