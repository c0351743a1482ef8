//! A25 `foreign-node-claimed`: a machine that was created with the label `node` and the provider ID of something else took
//! that Node over, and its deletion deleted the Node.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{
    all, apply, create_machine, delete_machine, error_code, exists, machine_gone, patch_spec, phase, seconds, slack,
    vm_count, wait,
};
use serde_json::json;

use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A25",
        name: "foreign-node-claimed",
        origin: "found by attacking mcm",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "A25",
                scenario: created(),
                mutant: true,
                breaks: &["I10", EXPECTED],
            },
            Case {
                id: "A25/corrected",
                scenario: corrected(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

/// A Node that no machine has, and a machine that names it and a VM that does not exist.
fn claiming(story: Scenario) -> Scenario {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "static" },
        "status": { "conditions": [condition] },
    });
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m-1", "labels": { "node": "static" } },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "providerID": "fakecloud:///local-1/vm-static" },
    });
    story
        .step(create_machine("m-2"))
        .eventually(joining(), phase("m-2", mcm_api::Phase::Running))
        .step(apply(node))
        .step(apply(machine))
}

fn created() -> Scenario {
    claiming(story(
        "a25-created",
        "A machine is created with the label of a Node and a provider ID that are not its own, and deleted: the Node stays.",
    ))
    .eventually(slack(), error_code("m-1", Code::NotFound))
    .step(wait(seconds(5)))
    .step(delete_machine("m-1"))
    .eventually(seconds(300), machine_gone("m-1"))
    .eventually(seconds(1), exists("Node", "static"))
}

fn corrected() -> Scenario {
    claiming(story(
        "a25-corrected",
        "A machine is created with a Node and a provider ID that are not its own: once the ID is removed, it gets a VM and a Node.",
    ))
    .eventually(slack(), error_code("m-1", Code::NotFound))
    .step(patch_spec("Machine", "m-1", json!({ "providerID": null })))
    .eventually(
        joining() + slack() + seconds(180),
        all([phase("m-1", mcm_api::Phase::Running), vm_count("m-1", 1), exists("Node", "static")]),
    )
}
