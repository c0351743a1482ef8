//! R42 `cordoned-leftover-after-roll`: a machine was selected and its node cordoned, and the replicas were
//! raised again before the controller reconciled; the empty node stayed forever.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, machine_gone, pause_leader, seconds, wait};
use serde_json::json;

use super::story;
use super::worlds::{TIMES, at_size, autoscaler, case, class, merge, pool, scale, settled, to_class};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R42",
        name: "cordoned-leftover-after-roll",
        origin: "MCM#1085, MCM PR#1087, MCM#1078; GA PR#401",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R42", scale_down_reverted("r42-taken-back", None), &["I15", "I11"]),
            case("R42/rollout", scale_down_reverted("r42-rollout", Some("class-b")), &[]),
        ],
        open: "",
    }
}

/// The replicas are back before a reconcile: the selected machine is deleted all the same, because its node is
/// cordoned.
fn scale_down_reverted(name: &str, rolls_to: Option<&str>) -> Scenario {
    let story = story(
        name,
        "A machine is selected and its node cordoned, and the replicas are raised again at once: it is replaced.",
    )
    .step(class("class-b", "z1"));
    let mut story = settled(story, &[pool(6)])
        .step(pause_leader(seconds(10)))
        .step(merge("Node", "md-a-1", json!({ "spec": { "unschedulable": true } })))
        .step(autoscaler("md-a-1", TIMES[0], 5))
        .step(wait(seconds(3)))
        .step(scale(6));
    if let Some(class) = rolls_to {
        story = story.step(to_class(class));
    }
    story.eventually(seconds(20 * 60), all([machine_gone("md-a-1"), at_size(6)]))
}
