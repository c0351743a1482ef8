//! A14 `removal-unobserved`: a machine that was removed while a watch was broken crashed the search for its
//! VM.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::api_faults::{Action, At, Match, Pattern, Rule};
use scenario::builder::{
    all, api_fault, api_fault_by, create_machine, fault_hits, force_delete, lift_api_fault, orphan_period, phase,
    slack, vm_count, wait,
};
use scenario::step::Client;
use serde_json::json;

use super::{joining, merge, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A14",
        name: "removal-unobserved",
        origin: "spec machine.md 12, no. 23, MCM#650",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A14",
            scenario: removal_unobserved(),
            mutant: true,
            breaks: &["I1", EXPECTED],
        }],
        open: "",
    }
}

/// mcm's watch of machines is silent while a user removes one by force, and the server restarts without its
/// history: only mcm's next list shows that the machine is missing.
fn removal_unobserved() -> Scenario {
    let silent = Rule {
        matches: Match {
            resource: Some(Pattern::new("machines")),
            ..Match::default()
        },
        ..Rule::new("silent", Action::FreezeWatch {})
    };
    let restarts = Rule {
        matches: Match {
            times: Some(1),
            ..Match::default()
        },
        ..Rule::new(
            "restarts",
            Action::Restart {
                at: At::BeforeCommit,
                keep_history: false,
                down: Duration::ZERO,
            },
        )
    };
    let released = json!({ "metadata": { "finalizers": null } });
    story(
        "a14-unseen-removal",
        "A machine is removed by force while its watch is silent, and the server restarts: its VM is collected.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(api_fault_by(Client::Mcm, silent))
    .step(merge("Machine", "m-1", released))
    .step(force_delete("Machine", "m-1"))
    .step(wait(slack()))
    .step(api_fault(restarts))
    .step(wait(slack()))
    .step(lift_api_fault("silent"))
    .eventually(
        2 * orphan_period() + slack(),
        all([vm_count("m-1", 0), fault_hits("restarts", 1)]),
    )
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
}
