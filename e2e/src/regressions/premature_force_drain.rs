//! R29 `premature-force-drain`: machines that had run for hours were force-drained immediately, and pods were
//! killed despite their disruption budgets.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule};
use scenario::builder::{
    all, api_fault_by, budget, delete_machine, deployment, fault_hits, keep, machine_gone, pods, seconds, slack,
    vm_count, wait, workload,
};
use scenario::expect::PodState;
use scenario::step::Client;

use super::{POOL, joining, refused, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R29",
        name: "premature-force-drain",
        origin: "MCM#563, MCM PR#564, MCM PR#373",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R29",
                scenario: old_machine(),
                mutant: true,
                breaks: &["I6", EXPECTED],
            },
            Case {
                id: "R29/b",
                scenario: after_an_error(),
                mutant: true,
                breaks: &["I6"],
            },
        ],
        open: "",
    }
}

/// One machine with a pod, and another to which the pod can move.
fn two_machines(name: &str, about: &str) -> Scenario {
    story(name, about)
        .keeper(POOL, 0, serde_json::Value::Null)
        .step(keep(1))
        .step(deployment(workload("web")))
        .eventually(
            joining() + slack(),
            pods("web").on("md-a-1").are(PodState::Ready).exactly(1),
        )
        .step(keep(2))
        .eventually(joining(), well("md-a-2"))
}

fn old_machine() -> Scenario {
    two_machines(
        "r29-old-machine",
        "A machine is deleted after three hours: its drain timeout counts from the deletion, and disruption budgets \
         are respected.",
    )
    .step(wait(seconds(3 * 3600)))
    .step(budget("web", 0))
    .step(wait(seconds(30)))
    .step(delete_machine("md-a-1"))
    .step(wait(seconds(600)))
    .eventually(
        seconds(1),
        all([
            pods("web").on("md-a-1").are(PodState::Ready).exactly(1),
            vm_count("md-a-1", 1),
        ]),
    )
    .step(budget("web", 1))
    .eventually(seconds(300), machine_gone("md-a-1"))
}

fn after_an_error() -> Scenario {
    let broken = Rule {
        matches: Match {
            resource: Some(Pattern::new("pods/eviction")),
            times: Some(3),
            ..Match::default()
        },
        ..Rule::new("broken", refused(500))
    };
    two_machines(
        "r29-b-after-an-error",
        "Evictions fail three times: mcm retries them, and no pod is deleted.",
    )
    .step(api_fault_by(Client::Mcm, broken))
    .step(delete_machine("md-a-1"))
    .eventually(seconds(300), machine_gone("md-a-1"))
    .eventually(seconds(1), fault_hits("broken", 3))
}
