//! A10 `failed-machine-is-created-again`: a machine whose VM got the name of an older Node was Failed, and
//! every pass started its creation again.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::builder::{
    all, apply, calls_at_least, delete_machine, force_delete, machine_gone, not, phase, seconds, slack, vm_count, wait,
};
use scenario::step::CloudCall;
use scenario::{Scenario, Step};
use serde_json::json;

use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A10",
        name: "failed-machine-is-created-again",
        origin: "spec machine.md 12, no. 5",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A10",
            scenario: old_node(),
            mutant: true,
            breaks: &["I9", "I10", EXPECTED],
        }],
        open: "",
    }
}

/// A class whose nodes have names different from their machines.
pub(super) fn class_with_names() -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "class-ip" },
        "provider": "fakecloud",
        "secretRef": { "name": "class-a-secret" },
        "providerSpec": {
            "machineType": "small", "image": "linux-1", "zone": "z1", "nodeNamePrefix": "ip-",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
    }))
}

/// A machine of that class.
pub(super) fn machine_of_that_class(name: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name },
        "spec": { "class": { "kind": "MachineClass", "name": "class-ip" } },
    }))
}

/// A Node without a provider ID exists from before; it is not collected for an hour.
fn old_node() -> Scenario {
    let twice = || calls_at_least(CloudCall::CreateMachine, "m-1", 2);
    story(
        "a10-old-node",
        "A new VM has the name of an older node: the VM is deleted, and the machine is Failed without another \
         creation.",
    )
    .step(class_with_names())
    .step(apply(
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "ip-m-1" } }),
    ))
    .step(wait(seconds(30)))
    .step(machine_of_that_class("m-1"))
    .eventually(slack(), all([phase("m-1", Phase::Failed), vm_count("m-1", 0)]))
    .always(seconds(3600), all([phase("m-1", Phase::Failed), not(twice())]))
    .step(force_delete("Node", "ip-m-1"))
    .step(delete_machine("m-1"))
    .eventually(slack(), machine_gone("m-1"))
    .step(machine_of_that_class("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
}
