//! R66 `cordon-inherited`: a replaced machine came back cordoned, because the node of its predecessor had not
//! been deleted.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, api_fault_by, create_machine, delete_machine, fault_hits, field, kubelet, machine_gone, node_gone, phase,
    seconds, slack, wait,
};
use scenario::step::{Client, KubeletAction};
use serde_json::json;

use super::{joining, merge, refused, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R66",
        name: "cordon-inherited",
        origin: "CAPI#13530",
        group: Group::Loops,
        confidence: Confidence::Symptom,
        cases: vec![
            Case {
                id: "R66",
                scenario: same_name(),
                mutant: true,
                breaks: &["I16", EXPECTED],
            },
            Case {
                id: "R66/person",
                scenario: cordoned_by_user(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

/// The node's deletion fails once, and the machine is created again under its name.
fn same_name() -> Scenario {
    let refusal = Rule {
        matches: Match {
            verbs: vec![Verb::Delete],
            resource: Some(Pattern::new("nodes")),
            times: Some(1),
            ..Match::default()
        },
        ..Rule::new("refusal", refused(500))
    };
    story(
        "r66-same-name",
        "The deletion of a node fails at first, and a machine of the same name is created: it is not cordoned.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(api_fault_by(Client::Mcm, refusal))
    .step(delete_machine("m-1"))
    .eventually(seconds(120), all([machine_gone("m-1"), node_gone("m-1")]))
    .eventually(seconds(1), fault_hits("refusal", 1))
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .always(seconds(60), field("Node", "m-1", "/spec/unschedulable", json!(null)))
}

/// For comparison: a user's cordon stays.
fn cordoned_by_user() -> Scenario {
    let cordoned = || field("Node", "m-1", "/spec/unschedulable", true);
    story(
        "r66-person",
        "A user cordons a node, and its kubelet restarts: the node stays cordoned.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(merge("Node", "m-1", json!({ "spec": { "unschedulable": true } })))
    .steps([
        kubelet("m-1", KubeletAction::Stop),
        wait(seconds(120)),
        kubelet("m-1", KubeletAction::Start),
    ])
    .eventually(seconds(120) + slack(), all([phase("m-1", Phase::Running), cordoned()]))
    .always(seconds(600), cordoned())
}
