//! R41 `scale-down-picks-wrong`: of two consecutive scale-downs that each selected a machine, the second chose
//! the first one's machine again.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, machine_gone, seconds, wait};

use super::worlds::{TIMES, at_size, autoscaler, case, drains_end, drains_take_long, pool, scale, settled};
use super::{story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R41",
        name: "scale-down-picks-wrong",
        origin: "MCM#1084, MCM PR#1086",
        group: Group::Rollouts,
        confidence: Confidence::Symptom,
        cases: vec![case("R41", named_twice(), &["I15", "I7"])],
        open: "",
    }
}

fn named_twice() -> Scenario {
    let story = story(
        "r41-named-twice",
        "Another machine is selected while a selected machine drains: both are deleted, and no third.",
    );
    let remaining = ["md-a-3", "md-a-4", "md-a-5", "md-a-6"];
    settled(story, &[pool(6)])
        .step(drains_take_long())
        .step(autoscaler("md-a-1", TIMES[0], 5))
        .step(wait(seconds(60)))
        .step(scale(6))
        .step(wait(seconds(60)))
        .step(autoscaler("md-a-2", TIMES[1], 5))
        .step(wait(seconds(480)))
        .step(drains_end())
        .step(wait(seconds(1200)))
        .eventually(
            seconds(1),
            all([machine_gone("md-a-1"), machine_gone("md-a-2"), at_size(5)]),
        )
        .eventually(seconds(1), all(remaining.map(well)))
}
