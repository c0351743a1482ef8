//! R50 `all-sets-scaled-to-zero`: in the midst of a rollout replicas changed so that nothing was to be distributed, and every
//! set was scaled to nothing.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{seconds, slack};
use serde_json::json;

use super::story;
use super::worlds::{at_size, case, class, pool, rolling, settled, spec, to_class, updated};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R50",
        name: "all-sets-scaled-to-zero",
        origin: "MCM#802, MCM PR#803",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R50", nothing_to_distribute(), &["I7", "I15"])],
        open: "",
    }
}

fn nothing_to_distribute() -> Scenario {
    let story = story(
        "r50-nothing-to-distribute",
        "In a rollout replicas grow by what the surge shrinks: no set loses its machines.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(to_class("class-b"))
        .eventually(slack(), updated(1))
        .step(spec(json!({ "replicas": 4, "strategy": rolling(0, 1) })))
        .eventually(seconds(40 * 60), at_size(4))
}
