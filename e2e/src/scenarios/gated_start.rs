//! A node registers with the taints for missing critical components and for not-ready instances. The first
//! keeps the machine from Running; mcm removes the second when the machine is Running.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, apply, exists, field, not, patch_spec, phase, slack};
use serde_json::{Value, json};

use super::joining;

pub(super) fn scenario() -> Scenario {
    let class = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "gated" },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small",
            "image": "linux-1",
            "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
            "taints": [taint(keys::CRITICAL_COMPONENTS_TAINT), taint(keys::INSTANCE_NOT_READY_TAINT)],
        },
        "secretRef": { "name": "class-a-secret" },
    });
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m-1" },
        "spec": { "class": { "kind": "MachineClass", "name": "gated" } },
    });
    let first_taint = |key: &str| field("Node", "m-1", "/spec/taints/0/key", key);
    Scenario::new(
        "gated_start",
        "The taint for missing critical components keeps a machine from Running; mcm removes the not-ready taint when \
         the machine is Running.",
    )
    .step(apply(class))
    .step(apply(machine))
    .eventually(joining(), exists("Node", "m-1"))
    .always(slack(), phase("m-1", Phase::Pending))
    .step(patch_spec(
        "Node",
        "m-1",
        json!({ "taints": [taint(keys::INSTANCE_NOT_READY_TAINT)] }),
    ))
    .eventually(
        slack(),
        all([
            phase("m-1", Phase::Running),
            not(first_taint(keys::INSTANCE_NOT_READY_TAINT)),
            not(first_taint(keys::CRITICAL_COMPONENTS_TAINT)),
        ]),
    )
}

fn taint(key: &str) -> Value {
    json!({ "key": key, "value": "", "effect": "NoSchedule" })
}
