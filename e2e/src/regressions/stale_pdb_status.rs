//! R31 `stale-pdb-status`: drains were aborted because of a correct disruption budget whose status was a moment
//! out of date.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule};
use scenario::builder::{
    all, any, api_fault, budget, delete_machine, deployment, fault_hits, field, keep, machine_gone, pods, seconds,
    slack, wait, workload,
};
use scenario::expect::PodState;

use super::{POOL, delayed, joining, story, well};

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R31",
        name: "stale-pdb-status",
        origin: "MCM PR#1127",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R31",
            scenario: two_drains(),
            mutant: true,
            breaks: &[EXPECTED],
        }],
        open: "",
    }
}

/// The disruption controller's status writes arrive half a minute late.
fn two_drains() -> Scenario {
    let late = Rule {
        matches: Match {
            resource: Some(Pattern::new("poddisruptionbudgets/status")),
            ..Match::default()
        },
        ..Rule::new("late", delayed(Duration::from_secs(30)))
    };
    let ready = || pods("web").are(PodState::Ready);
    story(
        "r31-two-drains",
        "A disruption budget allows one unavailable pod, and two machines are drained: the budget is not reported as \
         misconfigured.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(MACHINES.map(well)))
    .step(deployment(workload("web").replicas(3)))
    .step(budget("web", 1))
    .eventually(slack(), all(MACHINES.map(|machine| ready().on(machine).exactly(1))))
    .throughout(ready().at_least(2))
    .step(api_fault(late))
    .step(delete_machine("md-a-1"))
    .step(wait(seconds(1)))
    .never(
        seconds(300),
        any(MACHINES.map(|machine| field("Machine", machine, "/status/lastOperation/state", "Failed"))),
    )
    .meanwhile()
    .step(delete_machine("md-a-2"))
    .eventually(seconds(300), all(["md-a-1", "md-a-2"].map(machine_gone)))
    .eventually(seconds(1), fault_hits("late", 1))
}
