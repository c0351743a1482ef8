//! R69 `finalizer-retry-budget`: a new machine stayed without a phase for hours, because its key was dropped
//! after too many conflicts on a stale copy.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Match, Pattern, Rule};
use scenario::builder::{all, api_fault_by, fault_hits, keep, lift_api_fault, seconds, wait};
use scenario::step::Client;

use super::{POOL, joining, story, well};

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R69",
        name: "finalizer-retry-budget",
        origin: "MCM#1141, MCM PR#1142",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R69",
            scenario: lag(),
            mutant: true,
            breaks: &["I14", EXPECTED],
        }],
        open: "",
    }
}

/// Watch events of machines arrive four minutes late.
fn lag() -> Scenario {
    let by = Duration::from_secs(240);
    let late = Rule {
        matches: Match {
            resource: Some(Pattern::new("machines")),
            ..Match::default()
        },
        ..Rule::new("late", Action::LagWatch { by })
    };
    story(
        "r69-late-watch",
        "Watch events of machines arrive four minutes late: soon after the delay ends all machines are reconciled.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(api_fault_by(Client::Mcm, late))
    .step(keep(3))
    .step(wait(seconds(600)))
    .eventually(seconds(1), fault_hits("late", 1))
    .step(lift_api_fault("late"))
    .eventually(joining() + seconds(60), all(MACHINES.map(well)))
}
