//! R62 `orphan-node-after-lost-label`: a node without machine and VM stayed forever, because the write of the
//! machine's label had failed.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, api_fault_by, drain_timeout, fault_hits, keep, lift_api_fault, machine_gone, node_gone, seconds, vm_count,
    wait,
};
use scenario::step::{Client, Step};

use super::{POOL, joining, refused, story, undrainable, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R62",
        name: "orphan-node-after-lost-label",
        origin: "MCM#874, MCM PR#887, CAPI#7237",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R62",
                scenario: label_lost(),
                mutant: true,
                breaks: &["I16", EXPECTED],
            },
            Case {
                id: "R62/node-stays",
                scenario: node_stays(),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R62/after-a-drain",
                scenario: node_stays_after_a_drain(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "a node that joins while its VM is being deleted",
    }
}

/// The finalizer is written, and for three minutes only the status of the machine.
fn label_lost() -> Scenario {
    let unwritten = Rule {
        matches: Match {
            verbs: vec![Verb::Patch],
            resource: Some(Pattern::new("machines")),
            skip: 1,
            ..Match::default()
        },
        ..Rule::new("unwritten", refused(500))
    };
    story(
        "r62-label-lost",
        "A machine's label is not written before the machine is deleted, and its node has joined: the node is deleted \
         too.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(api_fault_by(Client::Mcm, unwritten))
    .step(keep(1))
    .step(wait(seconds(180)))
    .step(keep(0))
    .step(wait(seconds(2)))
    .eventually(seconds(1), fault_hits("unwritten", 1))
    .step(lift_api_fault("unwritten"))
    .eventually(
        seconds(30),
        all([machine_gone("md-a-1"), vm_count("md-a-1", 0), node_gone("md-a-1")]),
    )
}

/// The node's deletion is refused twice.
fn node_stays() -> Scenario {
    story(
        "r62-node-stays",
        "The deletion of a machine's node is refused twice: mcm retries, and the node is deleted.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well("md-a-1"))
    .step(node_refusal())
    .step(keep(0))
    .eventually(seconds(120), all([machine_gone("md-a-1"), node_gone("md-a-1")]))
    .eventually(seconds(1), fault_hits("refusal", 2))
}

/// The same after a drain that reached its timeout: the remaining time must not matter.
fn node_stays_after_a_drain() -> Scenario {
    undrainable(
        "r62-node-stays-after-a-drain",
        "A drain reaches its timeout, and then the deletion of the node is refused twice: mcm retries, and the node is \
         deleted.",
    )
    .step(node_refusal())
    .step(keep(0))
    .step(wait(drain_timeout()))
    .eventually(seconds(300), all([machine_gone("md-a-1"), node_gone("md-a-1")]))
    .eventually(seconds(1), fault_hits("refusal", 2))
}

fn node_refusal() -> Step {
    let refusal = Rule {
        matches: Match {
            verbs: vec![Verb::Delete],
            resource: Some(Pattern::new("nodes")),
            times: Some(2),
            ..Match::default()
        },
        ..Rule::new("refusal", refused(500))
    };
    api_fault_by(Client::Mcm, refusal)
}
