//! R59 `inplace-transfer-loses-phase`: a machine moved to the new set, and the node lost its agent's result,
//! before the machine had recorded the success.

use std::time::Duration;

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{all, annotate, fault_hits, phase, seconds, wait};
use serde_json::{Value, json};

use super::worlds::{
    Pool, api_fails, api_recovers, at_size, case, class, merge, pool, refusal, settled, to_class, updated,
};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R59",
        name: "inplace-transfer-loses-phase",
        origin: "MCM PR#1020",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R59", unwritten_success(), &["I19", EXPECTED]),
            case("R59/three", three_in_place(), &[]),
        ],
        open: "",
    }
}

/// For a minute mcm cannot write the success of the first machine, and the deployment is reconciled in the
/// meantime.
fn unwritten_success() -> Scenario {
    let story = story(
        "r59-unwritten-success",
        "A node reports the success of its update, and for a minute mcm cannot write it to the machine: the machine \
         moves to the new set afterwards, and does not fail.",
    )
    .step(class("class-b", "z1"));
    let usual = in_place(1);
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-b"))
        .eventually(seconds(600), phase("md-a-1", Phase::InPlaceUpdating))
        .step(wait(seconds(240)))
        .step(api_fails(&[Verb::Patch], "machines/status", refusal(503)))
        .step(merge("Node", "md-a-1", succeeded()))
        .step(wait(seconds(20)))
        .step(annotate("MachineDeployment", POOL, "example.com/looked-at", "now"))
        .step(wait(seconds(40)))
        .eventually(seconds(1), fault_hits("api", 1))
        .step(api_recovers())
        .eventually(seconds(3600), all([phase("md-a-1", Phase::Running), at_size(1)]))
}

fn in_place(machines: u32) -> Pool {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" },
    });
    Pool {
        strategy,
        ..pool(machines)
    }
}

/// The result that a node's agent writes at the end.
fn succeeded() -> Value {
    json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } })
}

/// The machines are updated one after the other; each agent takes four minutes, and watch events of nodes are
/// late.
fn three_in_place() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(30),
    };
    let usual = in_place(3);
    let story = story(
        "r59-three-in-place",
        "Three machines are updated in place: each moves to the new set after its success, and none fails.",
    )
    .step(class("class-b", "z1"));
    let mut story = settled(story, std::slice::from_ref(&usual))
        .step(api_fails(&[Verb::Watch], "nodes", lag))
        .step(to_class("class-b"));
    for (name, done) in usual.names().iter().zip(1..) {
        story = story
            .eventually(seconds(600), phase(name, Phase::InPlaceUpdating))
            .step(wait(seconds(240)))
            .step(merge("Node", name, succeeded()))
            .eventually(seconds(600), all([phase(name, Phase::Running), updated(done)]));
    }
    story
        .eventually(seconds(600), at_size(3))
        .eventually(seconds(1), fault_hits("api", 1))
}
