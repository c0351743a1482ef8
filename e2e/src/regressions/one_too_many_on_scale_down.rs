//! R46 `one-too-many-on-scale-down`: a scale-down from 40 to 2 left one; terminating machines were counted, and
//! others selected.

use std::time::Duration;

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{all, delete_machine, fault_hits, flap, machine_gone, seconds, wait};

use super::worlds::{api_fails, at_size, case, drains_end, drains_take_long, late_sets, pool, scale, settled};
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
            case("R46/b", deleted_by_user(), &[EXPECTED]),
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
        "18 of 20 machines drain for ten minutes while a node flaps: 18 are deleted and two stay.",
    );
    settled(story, &[pool(20)])
        .step(drains_take_long())
        .step(api_fails(&[Verb::Watch], "machines", lag))
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

/// The replicas are lowered, and a user deletes a machine before its set is updated.
fn deleted_by_user() -> Scenario {
    let story = story(
        "r46-b-person-deletes",
        "Replicas are lowered by one, and a user deletes a machine before the set is updated: only that machine is \
         deleted, and none is created.",
    );
    settled(story, &[pool(3)])
        .steps(late_sets("machinesets*"))
        .never(seconds(600), fault_hits("made", 1))
        .meanwhile()
        .step(scale(2))
        .step(delete_machine("md-a-1"))
        .eventually(joining(), all([machine_gone("md-a-1"), at_size(2)]))
        .eventually(seconds(1), fault_hits("api", 1))
        .eventually(joining(), all(["md-a-2", "md-a-3"].map(well)))
}
