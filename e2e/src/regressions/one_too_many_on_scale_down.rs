//! R46 `one-too-many-on-scale-down`: a scale-down from 40 to 2 left one; machines that were going already were counted, and
//! others chosen.

use std::time::Duration;

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{all, delete_machine, flap, machine_gone, seconds, struck, wait};

use super::worlds::{api_trouble, at_size, case, drains_end, drains_take_long, late_sets, pool, scale, settled};
use super::{joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R46",
        name: "one-too-many-on-scale-down",
        origin: "MCM#81; CAPI#6299, CAPI#9334; KMC#390",
        group: Group::Rollouts,
        confidence: Confidence::Guess,
        cases: vec![
            case("R46", many_drain(), &["I15", "I7"]),
            case("R46/b", person_deletes(), &[EXPECTED]),
        ],
        open: "20 machines, not 40",
    }
}

fn many_drain() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(2),
    };
    let story = story(
        "r46-many-drain",
        "Of 20 machines 18 drain for ten minutes while a node flaps: 18 go and two stay.",
    );
    settled(story, &[pool(20)])
        .step(drains_take_long())
        .step(api_trouble(&[Verb::Watch], "machines", lag))
        .step(scale(2))
        .step(wait(seconds(30)))
        .step(flap(
            "md-a-9",
            "CustomProblem",
            ["True", "False"],
            seconds(30),
            seconds(600),
        ))
        .step(drains_end())
        .eventually(seconds(3600), at_size(2))
}

/// The number is lowered, and before its set is told a person deletes a machine.
fn person_deletes() -> Scenario {
    let story = story(
        "r46-b-person-deletes",
        "The number is lowered by one, and a person deletes a machine before the set hears of it: that one goes, and none is made.",
    );
    settled(story, &[pool(3)])
        .steps(late_sets("machinesets*"))
        .never(seconds(600), struck("made", 1))
        .meanwhile()
        .step(scale(2))
        .step(delete_machine("md-a-1"))
        .eventually(joining(), all([machine_gone("md-a-1"), at_size(2)]))
        .eventually(seconds(1), struck("api", 1))
        .eventually(joining(), all(["md-a-2", "md-a-3"].map(well)))
}
