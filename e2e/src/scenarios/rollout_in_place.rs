//! An in-place rollout: the machines stay, and are updated one after the other.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, phase, slack};
use serde_json::json;

use crate::regressions::worlds::{Pool, at_size, class, merge, pool, settled, to_class, updated};

pub(super) fn scenario() -> Scenario {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" },
    });
    let usual = Pool { strategy, ..pool(2) };
    let story = Scenario::new(
        "rollout_in_place",
        "Two machines are updated in place one after the other: none is created and none is deleted.",
    )
    .step(class("class-b", "z1"));
    let mut story = settled(story, std::slice::from_ref(&usual)).step(to_class("class-b"));
    let succeeded = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
    for (name, done) in usual.names().iter().zip(1..) {
        story = story
            .eventually(2 * slack(), phase(name, Phase::InPlaceUpdating))
            .step(merge("Node", name, succeeded.clone()))
            .eventually(2 * slack(), all([phase(name, Phase::Running), updated(done)]));
    }
    story.eventually(2 * slack(), all([at_size(2), usual.runs()]))
}
