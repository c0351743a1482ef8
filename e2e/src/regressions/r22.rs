//! R22 `half-frozen`: freezing writes a label and a condition on two objects; when one of the writes was missing, the freeze
//! never ended.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{all, field, machine_gone, seconds, struck, wait};
use harness::scenario::disturb::api::Verb;
use serde_json::{Value, json};

use super::worlds::{
    api_recovers, api_trouble, at_size, case, drains_end, drains_take_long, merge, pool, refusal, scale, settled,
};
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

/// Too many machines drain, so that the set is frozen; its condition cannot be written until they are gone.
fn half_a_set() -> Scenario {
    let usual = pool(6);
    let frozen = |is: Value| field("MachineSet", &usual.set(), "/metadata/labels/freeze", is);
    let story = story(
        "r22-half-a-set",
        "A set has the label of a freeze and not the condition: it is thawed when there are few enough machines.",
    );
    settled(story, &[usual.clone()])
        .step(drains_take_long())
        .step(api_trouble(&[Verb::Patch], "machinesets/status", refusal(503)))
        .step(scale(2))
        .eventually(seconds(90), frozen(json!("True")))
        .step(wait(seconds(180)))
        .step(drains_end())
        .eventually(
            seconds(600),
            all((1..=4).map(|number| machine_gone(&format!("md-a-{number}")))),
        )
        .eventually(seconds(1), struck("api", 1))
        .step(wait(seconds(60)))
        .step(api_recovers())
        .step(scale(4))
        .eventually(seconds(300), all([frozen(Value::Null), at_size(4)]))
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
