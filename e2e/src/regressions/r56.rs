//! R56 `prefer-no-schedule-sticks`: a rollout was taken back, and nodes of the set that was the newest again kept the taint of
//! an old one.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{all, any, field, not, seconds, slack};
use serde_json::{Value, json};

use super::worlds::{at_size, case, class, pool, settled, to_class, updated};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R56",
        name: "prefer-no-schedule-sticks",
        origin: "MCM#989, MCM PR#1001; MCM#277",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R56", there_and_back(), &["I11", "I19"])],
        open: "",
    }
}

fn there_and_back() -> Scenario {
    let usual = pool(3);
    let clean = |name: &String| {
        let taints = |is: Value| field("Node", name, "/spec/taints", is);
        any([taints(Value::Null), taints(json!([]))])
    };
    let story = story(
        "r56-there-and-back",
        "A rollout is taken back after its first machine: no node keeps the taint of an old set.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-b"))
        .eventually(slack(), all([updated(1), not(clean(&"md-a-1".to_owned()))]))
        .step(to_class("class-a"))
        .eventually(seconds(3600), at_size(3))
        .eventually(slack(), all(usual.names().iter().map(clean)))
        .quiet_end(joining())
}
