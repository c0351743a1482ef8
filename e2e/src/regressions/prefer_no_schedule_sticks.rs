//! R56 `prefer-no-schedule-sticks`: a rollout was rolled back, and nodes of the restored set kept the taint of
//! an old set.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::Verb;
use scenario::builder::{all, any, fault_hits, field, not, seconds, slack, wait};
use scenario::expect::Condition;
use serde_json::{Value, json};

use super::worlds::{
    Pool, api_fails, api_recovers, at_size, case, class, merge, pool, refusal, settled, to_class, updated,
};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R56",
        name: "prefer-no-schedule-sticks",
        origin: "MCM#989, MCM PR#1001; MCM#277",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R56", rolled_back(), &["I11", "I19"]),
            case("R56/conflicts", conflicts(), &[]),
        ],
        open: "",
    }
}

fn taints(node: &str, are: Value) -> Condition {
    field("Node", node, "/spec/taints", are)
}

fn untainted(node: &str) -> Condition {
    any([Value::Null, json!([])].map(|are| taints(node, are)))
}

/// A pool with another class for a rollout.
fn with_another_class(story: Scenario, usual: &Pool) -> Scenario {
    settled(story.step(class("class-b", "z1")), std::slice::from_ref(usual))
}

fn rolled_back() -> Scenario {
    let usual = pool(3);
    let story = story(
        "r56-there-and-back",
        "A rollout is rolled back after its first machine: no node keeps the taint of an old set.",
    );
    with_another_class(story, &usual)
        .step(to_class("class-b"))
        .eventually(slack(), all([updated(1), not(untainted("md-a-1"))]))
        .step(to_class("class-a"))
        .eventually(seconds(3600), at_size(3))
        .eventually(slack(), all(usual.names().iter().map(|name| untainted(name))))
        .quiet_end(joining())
}

/// The same while taints cannot be written, and a node has a user's taint.
fn conflicts() -> Scenario {
    let usual = pool(3);
    let user_taint = json!([{ "key": "example.com/noisy", "effect": "PreferNoSchedule" }]);
    let story = story(
        "r56-conflicts",
        "A rollout is rolled back while nodes cannot be written: the taint of an old set is removed afterwards, and a \
         user's taint stays.",
    );
    with_another_class(story, &usual)
        .step(merge("Node", "md-a-1", json!({ "spec": { "taints": user_taint } })))
        .step(to_class("class-b"))
        .eventually(slack(), all([updated(1), not(untainted("md-a-2"))]))
        .step(api_fails(&[Verb::Patch], "nodes", refusal(409)))
        .step(to_class("class-a"))
        .step(wait(seconds(300)))
        .eventually(seconds(1), fault_hits("api", 2))
        .step(api_recovers())
        .eventually(seconds(3600), at_size(3))
        .eventually(
            slack(),
            all([taints("md-a-1", user_taint), untainted("md-a-2"), untainted("md-a-3")]),
        )
        .quiet_end(joining())
}
