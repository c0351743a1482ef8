//! R59 `inplace-transfer-loses-phase`: a machine changed its set, and the node lost the word of its agent, before the machine
//! had taken note of its success.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{all, phase, seconds, struck, wait};
use harness::scenario::disturb::api::{Action, Verb};
use mcm_api::{Phase, keys};
use serde_json::json;

use super::story;
use super::worlds::{Pool, api_trouble, at_size, case, class, merge, pool, settled, to_class, updated};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R59",
        name: "inplace-transfer-loses-phase",
        origin: "MCM PR#1020",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R59", three_in_place(), &[])],
        open: "a mutant that hands a machine over too early: the machine controller always looks first",
    }
}

/// Each machine is updated when its turn comes; its agent takes four minutes, and what is watched of nodes is late.
fn three_in_place() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(30),
    };
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" },
    });
    let usual = Pool { strategy, ..pool(3) };
    let story = story(
        "r59-three-in-place",
        "Three machines are updated in place: each changes its set when it has succeeded, and none fails.",
    )
    .step(class("class-b", "z1"));
    let mut story = settled(story, std::slice::from_ref(&usual))
        .step(api_trouble(&[Verb::Watch], "nodes", lag))
        .step(to_class("class-b"));
    let succeeded = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
    for (name, done) in usual.names().iter().zip(1..) {
        story = story
            .eventually(seconds(600), phase(name, Phase::InPlaceUpdating))
            .step(wait(seconds(240)))
            .step(merge("Node", name, succeeded.clone()))
            .eventually(seconds(600), all([phase(name, Phase::Running), updated(done)]));
    }
    story
        .eventually(seconds(600), at_size(3))
        .eventually(seconds(1), struck("api", 1))
}
