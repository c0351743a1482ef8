//! R22 `half-frozen`: freezing writes a label and a condition on two objects; when one of the writes was missing, the freeze
//! never ended.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{seconds, wait};
use serde_json::json;

use super::worlds::{at_size, case, merge, pool, scale, settled};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R22",
        name: "half-frozen",
        origin: "MCM#250, MCM#88, MCM PR#251, MCM PR#264",
        group: Group::Freeze,
        confidence: Confidence::Cause,
        cases: vec![
            case("R22", half_a_set(), &["I11"]),
            case("R22/b", half_a_deployment(), &["I11"]),
        ],
        open: "",
    }
}

/// A set says that it is frozen, and has no condition that says so.
fn half_a_set() -> Scenario {
    let label = json!({ "metadata": { "labels": { "freeze": "True" } } });
    let story = story(
        "r22-half-a-set",
        "A set has the label of a freeze and not the condition: the label goes, and it grows.",
    );
    settled(story, &[pool(3)])
        .step(merge("MachineSet", &pool(3).set(), label))
        .step(wait(seconds(180)))
        .step(scale(4))
        .eventually(seconds(300), at_size(4))
}

/// A deployment says that it is frozen, and no set of it is.
fn half_a_deployment() -> Scenario {
    let story = story(
        "r22-b-half-a-deployment",
        "A deployment has the label of a freeze and its set has not: the word is taken back, and it grows.",
    );
    settled(story, &[pool(3)])
        .step(merge(
            "MachineDeployment",
            POOL,
            json!({ "metadata": { "labels": { "freeze": "True" } } }),
        ))
        .step(wait(seconds(180)))
        .step(scale(4))
        .eventually(seconds(300), at_size(4))
}
