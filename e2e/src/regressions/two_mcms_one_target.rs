//! R67 `two-mcms-one-target`: two controllers that served one cluster marked each other's nodes as not managed;
//! and after a restore own nodes kept the mark, because they were older than their Machines.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::builder::{all, apply, boot_delay, field, force_delete, keep, mcm, not, phase, seconds, slack, wait};
use scenario::expect::Condition;
use scenario::step::ProcessAction;
use scenario::{Scenario, fixtures};
use serde_json::{Value, json};

use super::{POOL, joining, merge, story, well};

/// The other controller's namespace.
const OTHER: &str = "other";
const OURS: [&str; 2] = ["md-a-1", "md-a-2"];
const THEIRS: [&str; 2] = ["other-1", "other-2"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R67",
        name: "two-mcms-one-target",
        origin: "MCM#774, MCM#863, MCM PR#866",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R67",
                scenario: neighbours(),
                mutant: true,
                breaks: &["I10", "I11", EXPECTED],
            },
            Case {
                id: "R67/b",
                scenario: restored(),
                mutant: true,
                breaks: &["I10", EXPECTED],
            },
        ],
        open: "",
    }
}

/// A fixture object in the other namespace; its class has its own tags.
fn in_other_namespace(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(OTHER);
    if object["kind"] == "MachineClass" {
        object["providerSpec"]["tags"] = json!({ "kubernetes.io/cluster/other": "1", "kubernetes.io/role/node": "1" });
    }
    object
}

/// The Node is not marked as not managed, and has the finalizer of a machine controller.
fn unmarked(node: &str) -> Condition {
    let mark = keys::NOT_MANAGED_ANNOTATION.replace('/', "~1");
    all([
        not(field("Node", node, &format!("/metadata/annotations/{mark}"), "1")),
        field("Node", node, "/metadata/finalizers", json!([keys::NODE_FINALIZER])),
    ])
}

fn neighbours() -> Scenario {
    let machine = |name| apply(in_other_namespace(fixtures::machine(name, OTHER)));
    let names = || OURS.into_iter().chain(THEIRS);
    story(
        "r67-two-controllers",
        "Two controllers serve one cluster, each with its own tags: neither marks nor releases the other's nodes.",
    )
    .neighbour(OTHER)
    .keeper(POOL, 0, Value::Null)
    .steps([
        apply(in_other_namespace(fixtures::secret(OTHER))),
        apply(in_other_namespace(fixtures::class(OTHER))),
    ])
    .steps(THEIRS.map(machine))
    .step(keep(2))
    .eventually(joining(), all(names().map(|name| phase(name, Phase::Running))))
    .eventually(slack(), all(names().map(unmarked)))
    .always(seconds(2 * 3600), all(names().map(unmarked)))
}

/// Machines are restored while mcm is down: they are younger than their Nodes.
fn restored() -> Scenario {
    let bare = json!({ "metadata": { "finalizers": null } });
    let machine = |name: &str| {
        let mut machine = fixtures::machine(name, "");
        machine["metadata"] = json!({ "name": name, "labels": { keys::NODE_LABEL: name } });
        apply(machine)
    };
    story(
        "r67-b-restored",
        "Machines are restored that are younger than their Nodes: no Node is marked, and each has its finalizer again.",
    )
    .step(machine("m-1"))
    .eventually(boot_delay() + slack(), well("m-1"))
    .step(wait(seconds(1800)))
    .step(mcm(ProcessAction::Kill))
    .step(merge("Machine", "m-1", bare))
    .step(force_delete("Machine", "m-1"))
    .step(wait(seconds(60)))
    .step(machine("m-1"))
    .step(mcm(ProcessAction::Start))
    .eventually(seconds(600), well("m-1"))
    .eventually(slack(), unmarked("m-1"))
    .always(seconds(3600), unmarked("m-1"))
}
