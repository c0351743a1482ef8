//! R53 `old-set-below-available`: a deployment was reconciled twice before its set had deleted the planned
//! machines, and machines to be deleted counted as available.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, At, Verb};
use scenario::builder::{fault_hits, seconds};

use super::story;
use super::worlds::{Pool, api_fails, case, class, pool, rolled, rolling, settled, to_class};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R53",
        name: "old-set-below-available",
        origin: "CAPI PR#12812, CAPI#8987, CAPI PR#9004",
        group: Group::Rollouts,
        confidence: Confidence::Symptom,
        cases: vec![case("R53", reconciled_twice(), &["I7"])],
        open: "",
    }
}

fn reconciled_twice() -> Scenario {
    let late = Action::Delay {
        at: At::BeforeCommit,
        by: Duration::from_secs(5),
    };
    let usual = Pool {
        strategy: rolling(3, 1),
        ..pool(6)
    };
    let story = story(
        "r53-ordered-twice",
        "Deletions of machines are delayed in a rollout: machines to be deleted do not count as available.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[usual])
        .step(api_fails(&[Verb::Delete], "machines", late))
        .step(to_class("class-b"))
        .eventually(seconds(3600), rolled(6))
        .eventually(seconds(1), fault_hits("api", 1))
}
