//! R23 `freeze-on-scale-down`: draining machines counted against the limit, so that a large scale-down froze
//! the set permanently.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, field, seconds, wait};
use serde_json::{Value, json};

use super::story;
use super::worlds::{at_size, case, drains_end, drains_take_long, pool, scale, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R23",
        name: "freeze-on-scale-down",
        origin: "MCM#82, MCM PR#86",
        group: Group::Freeze,
        confidence: Confidence::Cause,
        cases: vec![
            case("R23", scaled_down("r23-scaled-down"), &["I11"]),
            case("R23/b", scaled_down("r23-b-scaled-down"), &["I11"]),
        ],
        open: "",
    }
}

fn scaled_down(name: &str) -> Scenario {
    let usual = pool(20);
    let frozen = |is: Value| field("MachineSet", &usual.set(), "/metadata/labels/freeze", is);
    let story = story(
        name,
        "18 of 20 machines are deleted, and drain for three minutes: the set is frozen in the meantime, and scales up \
         later.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(drains_take_long())
        .step(scale(2))
        .eventually(seconds(90), frozen(json!("True")))
        .step(wait(seconds(60)))
        .step(scale(5))
        .step(wait(seconds(60)))
        .step(drains_end())
        .eventually(seconds(15 * 60), all([frozen(Value::Null), at_size(5)]))
}
