//! R33 `drain-buffer-deadlock`: a failed drain left a listener whose channel was not read; it filled up, and all
//! drains with volumes stopped.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule};
use scenario::builder::{
    all, api_fault_by, delete_machine, fault_hits, keep, machine_gone, pods, seconds, stateful_set, storage_class,
    workload,
};
use scenario::expect::PodState;
use scenario::step::Client;

use super::{POOL, joining, refused, story, well};

/// Three of them fill a node.
const PODS: u32 = 36;
const MACHINES: u32 = 12;

pub(super) fn entry() -> Entry {
    Entry {
        id: "R33",
        name: "drain-buffer-deadlock",
        origin: "MCM PR#627",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R33",
            scenario: drains(),
            mutant: true,
            breaks: &["I13", "I14", EXPECTED],
        }],
        open: "",
    }
}

fn drains() -> Scenario {
    let machines = || (1..=MACHINES).map(|number| format!("md-a-{number}"));
    let deleted = || machines().take(10);
    let failing = Rule {
        matches: Match {
            resource: Some(Pattern::new("pods/eviction")),
            times: Some(1),
            ..Match::default()
        },
        ..Rule::new("fails", refused(500))
    };
    let serve = || {
        pods("db")
            .are(PodState::Ready)
            .exactly(usize::try_from(PODS).unwrap_or_default())
    };
    story(
        "r33-drains-with-volumes",
        "Ten of twelve machines with three volumes each are drained at once, and an eviction fails: all drains \
         complete in time.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(storage_class())
    .step(keep(MACHINES))
    .eventually(joining(), all(machines().map(|name| well(&name))))
    .step(stateful_set(workload("db").replicas(PODS).cpu("600m").volume("1Gi")))
    .eventually(seconds(30 * 60), serve())
    .step(api_fault_by(Client::Mcm, failing))
    .steps(deleted().map(|name| delete_machine(&name)))
    .eventually(seconds(15 * 60), all(deleted().map(|name| machine_gone(&name))))
    .eventually(seconds(5 * 60), all([serve(), fault_hits("fails", 1)]))
}
