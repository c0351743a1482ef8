//! R27 `drain-outlives-timeout`: a drain with a limit of two hours took eleven, because the API server was slow
//! for each eviction, and attempts were counted instead of time.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, At, Match, Pattern, Rule};
use scenario::builder::{api_fault_by, drain_timeout, fault_hits, keep, machine_gone, seconds};
use scenario::step::Client;

use super::{refused, undrainable};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R27",
        name: "drain-outlives-timeout",
        origin: "MCM#785, MCM PR#920",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R27",
            scenario: slow_evictions(),
            mutant: true,
            breaks: &[EXPECTED, "I13"],
        }],
        open: "a deadline inside the wait for a volume; A02 covers zero attempts",
    }
}

fn slow_evictions() -> Scenario {
    let evictions = |name: &str, action: Action| {
        let matches = Match {
            resource: Some(Pattern::new("pods/eviction")),
            ..Match::default()
        };
        let rule = Rule {
            matches,
            ..Rule::new(name, action)
        };
        api_fault_by(Client::Mcm, rule)
    };
    let slow = Action::Delay {
        at: At::BeforeCommit,
        by: Duration::from_secs(80),
    };
    undrainable(
        "r27-slow-evictions",
        "Each eviction takes 80 seconds and is refused: the drain ends by force at its timeout, not later.",
    )
    .steps([evictions("slow", slow), evictions("refused", refused(429))])
    .never(drain_timeout() - seconds(5), machine_gone("md-a-1"))
    .meanwhile()
    .step(keep(0))
    .eventually(drain_timeout() + seconds(300), machine_gone("md-a-1"))
    .eventually(seconds(1), fault_hits("slow", 50))
}
