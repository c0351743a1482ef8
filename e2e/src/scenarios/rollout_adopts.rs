//! Ownership: a deployment adopts an existing set with its machines, and the set releases a machine that loses
//! its label.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, apply, create_machine, delete_machine, exists, field, observed, phase, slack};
use serde_json::{Value, json};

use super::{joining, nothing_left};
use crate::regressions::worlds::{at_size, merge, pool};

const MACHINES: [&str; 2] = ["by-hand-1", "by-hand-2"];

pub(super) fn scenario() -> Scenario {
    let usual = pool(2);
    let label = |value: Value| json!({ "metadata": { "labels": { keys::DEPLOYMENT_LABEL: value } } });
    let owner = |machine: &str, is: Value| field("Machine", machine, "/metadata/ownerReferences/0/name", is);
    let set = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": { "name": "by-hand", "labels": { keys::DEPLOYMENT_LABEL: usual.name } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { keys::DEPLOYMENT_LABEL: usual.name } },
            "template": {
                "metadata": { "labels": { keys::DEPLOYMENT_LABEL: usual.name } },
                "spec": { "class": { "kind": "MachineClass", "name": usual.class } },
            },
        },
    });
    let story = Scenario::new(
        "adopt_and_orphan",
        "A deployment adopts a set created by hand with its machines; a machine that loses its label is released and \
         replaced.",
    )
    .steps(MACHINES.map(create_machine))
    .eventually(joining(), all(MACHINES.map(|name| phase(name, Phase::Running))))
    .steps(MACHINES.map(|name| merge("Machine", name, label(json!(usual.name)))))
    .step(apply(set))
    .eventually(
        slack(),
        all(MACHINES
            .map(|name| owner(name, json!("by-hand")))
            .into_iter()
            .chain([observed("MachineSet", "by-hand")])),
    )
    .step(usual.deployment())
    .eventually(
        slack(),
        all([
            field("MachineSet", "by-hand", "/metadata/ownerReferences/0/name", usual.name),
            at_size(2),
        ]),
    )
    .eventually(slack(), all(MACHINES.map(|name| phase(name, Phase::Running))));
    story
        .step(merge("Machine", MACHINES[0], label(Value::Null)))
        .eventually(
            slack(),
            field("Machine", MACHINES[0], "/metadata/ownerReferences", Value::Null),
        )
        .eventually(joining(), at_size(2))
        .always(slack(), exists("Machine", MACHINES[0]))
        .step(delete_machine(MACHINES[0]))
        .eventually(joining(), all([nothing_left(MACHINES[0]), at_size(2)]))
}
