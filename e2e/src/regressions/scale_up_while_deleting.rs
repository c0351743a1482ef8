//! R55 `scale-up-while-deleting`: a controller that started during the deletion of a cluster saw a stale set,
//! whose machines were terminating, and created new ones.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Behind, Match, Pattern, Rule, Verb};
use scenario::builder::{all, api_fault_by, delete, exists, fault_hits, lift_api_fault, mcm, not, seconds, wait};
use scenario::step::{Client, ProcessAction};

use super::worlds::{case, drains_end, drains_take_long, pool, settled};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R55",
        name: "scale-up-while-deleting",
        origin: "CAPI#9629",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R55", stale_owner(), &["I15"])],
        open: "",
    }
}

/// The new process lists stale sets, and their watch events are late.
fn stale_owner() -> Scenario {
    let of_sets = |name: &str, verb, action| {
        let matches = Match {
            verbs: vec![verb],
            resource: Some(Pattern::new("machinesets")),
            ..Match::default()
        };
        api_fault_by(
            Client::Mcm,
            Rule {
                matches,
                ..Rule::new(name, action)
            },
        )
    };
    let stale = Action::StaleList {
        by: Behind::Duration(Duration::from_hours(1)),
        consistent: true,
    };
    let late = Action::LagWatch {
        by: Duration::from_secs(30),
    };
    let story = story(
        "r55-stale-owner",
        "A deployment is deleted, and a new process sees a stale set: no machine is created.",
    );
    settled(story, &[pool(3)])
        .step(drains_take_long())
        .step(wait(seconds(10)))
        .step(of_sets("stale", Verb::List, stale))
        .step(of_sets("late", Verb::Watch, late))
        .step(wait(seconds(10)))
        .step(delete("MachineDeployment", POOL))
        .step(wait(seconds(60)))
        .step(mcm(ProcessAction::Restart))
        .step(wait(seconds(240)))
        .eventually(seconds(1), all([fault_hits("stale", 1), fault_hits("late", 1)]))
        .step(lift_api_fault("stale"))
        .step(lift_api_fault("late"))
        .step(drains_end())
        .eventually(seconds(15 * 60), not(exists("MachineDeployment", POOL)))
        .quiet_end(joining())
}
