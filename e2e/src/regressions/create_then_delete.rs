//! R45 `create-then-delete`: a selected machine was deleted before the set's replicas were lowered; the set
//! created another one, and deleted it again.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, fault_hits, machine_gone, seconds, wait};

use super::worlds::{Pool, TIMES, at_size, autoscaler, case, late_sets, pool, rolling, settled};
use super::{story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R45",
        name: "create-then-delete",
        origin: "MCM#1068, MCM PR#1069; MCM#479",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R45", mark_before_number(), &["I15", "I7", EXPECTED])],
        open: "",
    }
}

/// Writes of sets are delayed: the machine is marked long before its set has the lower replicas.
fn mark_before_number() -> Scenario {
    let usual = Pool {
        strategy: rolling(0, 1),
        ..pool(3)
    };
    let story = story(
        "r45-mark-before-number",
        "A machine is marked before the replicas of its set are lowered: it is deleted, and none is created.",
    );
    settled(story, &[usual])
        .steps(late_sets("machinesets"))
        .never(seconds(600), fault_hits("made", 1))
        .meanwhile()
        .step(autoscaler("md-a-1", TIMES[0], 2))
        .step(wait(seconds(20 * 60)))
        .eventually(
            seconds(1),
            all([machine_gone("md-a-1"), well("md-a-2"), well("md-a-3"), at_size(2)]),
        )
        .eventually(seconds(1), fault_hits("api", 1))
}
