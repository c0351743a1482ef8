//! An admission policy denies deletions of Machines: like `deletes_refused`, where a fault does.

use mcm_api::{Phase, keys};
use scenario::builder::{
    all, annotate, apply, creation_timeout, delete, deletion_forbidden, exists, phase, slack, vm_count,
};
use scenario::{Scenario, fixtures};
use serde_json::{Value, json};

use super::{joining, nothing_left};

const MACHINES: [&str; 2] = ["m-1", "m-2"];
/// The policy, its binding, and the label of the machines that it selects.
const POLICY: &str = "machines-stay";

pub(super) fn scenario() -> Scenario {
    let there = |machine| all([exists("Machine", machine), vm_count(machine, 1)]);
    Scenario::new(
        "deletes_denied",
        "An admission policy denies machine deletions that users request through Nodes: mcm retries them until they \
         succeed.",
    )
    .step(apply(policy()))
    .step(apply(binding()))
    .steps(MACHINES.map(|machine| apply(labelled(machine))))
    .eventually(joining(), all(MACHINES.map(|machine| phase(machine, Phase::Running))))
    .step(deletion_forbidden("Machine", MACHINES[0]))
    .step(annotate("Node", "m-1", keys::TRIGGER_DELETION_ANNOTATION, "true"))
    .step(delete("Node", "m-2"))
    .always(slack(), all(MACHINES.map(there)))
    .step(delete("ValidatingAdmissionPolicyBinding", POLICY))
    .step(delete("ValidatingAdmissionPolicy", POLICY))
    .eventually(creation_timeout(), all(MACHINES.map(nothing_left)))
}

fn labelled(machine: &str) -> Value {
    let mut machine = fixtures::machine(machine, "");
    machine["metadata"]["labels"] = json!({ POLICY: "true" });
    machine
}

fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": POLICY },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "objectSelector": { "matchLabels": { POLICY: "true" } },
                "resourceRules": [{
                    "apiGroups": ["machine.sapcloud.io"],
                    "apiVersions": ["*"],
                    "operations": ["DELETE"],
                    "resources": ["machines"],
                }],
            },
            "validations": [{ "expression": "false", "message": "machines stay for now" }],
        },
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": POLICY },
        "spec": { "policyName": POLICY, "validationActions": ["Deny"] },
    })
}
