//! R48 `duplicate-machinesets`: a deployment created three sets for one template, because it did not see those
//! that it had created.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, At, Verb};
use scenario::builder::{fault_hits, seconds};

use super::story;
use super::worlds::{api_trouble_times, case, class, pool, rolled, settled, to_class};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R48",
        name: "duplicate-machinesets",
        origin: "CAPI#13649",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R48", late_watch(), &["I7", "I9"]),
            case("R48/lost", lost_answer(), &[]),
        ],
        open: "",
    }
}

fn rolls(name: &str, about: &str, verbs: &[Verb], action: Action, times: Option<u32>) -> Scenario {
    let story = story(name, about).step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(api_trouble_times(verbs, "machinesets", action, times))
        .step(to_class("class-b"))
        .eventually(seconds(30 * 60), rolled(3))
        .eventually(seconds(1), fault_hits("api", 1))
}

fn late_watch() -> Scenario {
    rolls(
        "r48-late-watch",
        "Watch events of sets arrive half a minute late: a rollout creates one set.",
        &[Verb::Watch],
        Action::LagWatch {
            by: Duration::from_secs(30),
        },
        None,
    )
}

fn lost_answer() -> Scenario {
    rolls(
        "r48-lost-answer",
        "The response to a set's creation is lost: a rollout creates one set.",
        &[Verb::Create],
        Action::Drop { at: At::AfterCommit },
        Some(1),
    )
}
