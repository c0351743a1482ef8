//! R01 `orphan-massacre-control-api-down`: a process that started during an outage of the API server saw the
//! VMs but not the Machines, and deleted every worker of the cluster as an orphan.

use std::time::Duration;

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Behind, Cut, Match, Pattern, Rule, Verb, Window};
use scenario::builder::{
    all, api_fault_by, fault_hits, keep, lift_api_fault, mcm, orphan_period, seconds, vm_count, wait,
};
use scenario::step::{Client, ProcessAction};

use super::{POOL, delayed, joining, story, well};

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];
/// When lists and watches are delayed, relative to the start.
const BEHIND: Duration = Duration::from_mins(8);

pub(super) fn entry() -> Entry {
    Entry {
        id: "R01",
        name: "orphan-massacre-control-api-down",
        origin: "MCM#657",
        group: Group::Ledger,
        confidence: Confidence::Symptom,
        cases: vec![
            Case {
                id: "R01",
                scenario: machines_listed_late(),
                mutant: true,
                breaks: &["I3"],
            },
            Case {
                id: "R01/b",
                scenario: machines_late(),
                mutant: true,
                breaks: &["I3"],
            },
        ],
        open: "",
    }
}

/// The new process gets a list of Machines from before they existed, and its watch arrives a minute late. No
/// correct server responds like this; it represents any cause that hides the Machines.
fn machines_listed_late() -> Scenario {
    let behind = |name: &str, verb, action| Rule {
        matches: Match {
            verbs: vec![verb],
            resource: Some(Pattern::new("machines")),
            window: Some(Window {
                from: BEHIND,
                until: None,
            }),
            ..Match::default()
        },
        ..Rule::new(name, action)
    };
    let stale = Action::StaleList {
        by: Behind::Duration(Duration::from_hours(1)),
        consistent: true,
    };
    let late = Action::LagWatch {
        by: Duration::from_mins(1),
    };
    let cut = Rule::new("cut", Action::Partition { how: Cut::Refuse });
    story(
        "r01-orphan-massacre",
        "A process that starts during an outage of the API server sees the VMs before their Machines: it collects \
         none.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(api_fault_by(Client::Mcm, behind("stale", Verb::List, stale)))
    .step(api_fault_by(Client::Mcm, behind("late", Verb::Watch, late)))
    .step(keep(3))
    .eventually(joining(), all(MACHINES.map(well)))
    .step(wait(seconds(300)))
    .step(api_fault_by(Client::Mcm, cut))
    .step(wait(seconds(60)))
    .step(mcm(ProcessAction::Restart))
    .step(wait(seconds(240)))
    .step(lift_api_fault("cut"))
    .step(wait(orphan_period() + seconds(600)))
    .eventually(seconds(1), all(MACHINES.map(|machine| vm_count(machine, 1))))
    .eventually(
        seconds(1),
        all([fault_hits("cut", 1), fault_hits("stale", 1), fault_hits("late", 1)]),
    )
}

/// The wait for the list of Machines was skipped if the cloud had only one VM.
fn machines_late() -> Scenario {
    let late = Rule {
        matches: Match {
            verbs: vec![Verb::List],
            resource: Some(Pattern::new("machines")),
            ..Match::default()
        },
        ..Rule::new("late", delayed(Duration::from_secs(30)))
    };
    story(
        "r01-b-one-vm",
        "A process starts, and the list of its only Machine arrives half a minute late: its VM is not collected.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well(MACHINES[0]))
    .step(api_fault_by(Client::Mcm, late))
    .step(mcm(ProcessAction::Restart))
    .step(wait(orphan_period() + seconds(600)))
    .eventually(seconds(1), well(MACHINES[0]))
    .eventually(seconds(1), fault_hits("late", 1))
}
