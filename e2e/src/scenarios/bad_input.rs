//! Invalid input: a missing class, a Secret without user data, a provider spec that the driver rejects, and a
//! driver that does not name the node. Each machine reports its error, other machines are not affected, and
//! each machine becomes Running after the fix.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, apply, create_machine, creation_timeout, description_contains, inject, lift, phase, slack, vm_count,
};
use scenario::fixtures::{API_TOKEN, CLASS, SECRET};
use scenario::step::{CloudCall, Fault, Patch, Step};
use serde_json::{Value, json};

use super::joining;

const USER_DATA: &str = "#!/bin/sh\njoin --token <<BOOTSTRAP_TOKEN>> --name <<MACHINE_NAME>>\n";

fn class(name: &str, machine_type: &str, secret: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": name },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": machine_type,
            "image": "linux-1",
            "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
        "secretRef": { "name": secret },
    }))
}

fn machine(name: &str, class: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name },
        "spec": { "class": { "kind": "MachineClass", "name": class } },
    }))
}

fn merged(kind: &str, name: &str, merge: Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
        merge,
        status: false,
    })
}

pub(super) fn scenario() -> Scenario {
    let nameless = |name: &str, call| inject(Fault::of(name, call).machine("m-nonsense").nameless());
    let without_user_data = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "without-user-data" },
        "stringData": { "apiToken": API_TOKEN },
    });
    let running = |machine| all([phase(machine, Phase::Running), vm_count(machine, 1)]);
    Scenario::new(
        "bad_input",
        "A class, a Secret, a provider spec and a driver are wrong: each machine reports its error, and becomes \
         Running after the fix.",
    )
    .steps([
        nameless("nameless-creation", CloudCall::CreateMachine),
        nameless("nameless-lookup", CloudCall::GetMachineStatus),
    ])
    .step(apply(without_user_data))
    .step(class("no-script", "small", "without-user-data"))
    .step(class("too-large", "gigantic", SECRET))
    .steps([
        machine("m-class", "nowhere"),
        machine("m-script", "no-script"),
        machine("m-spec", "too-large"),
        machine("m-nonsense", CLASS),
        create_machine("m-1"),
    ])
    .eventually(
        slack(),
        all([
            description_contains("m-class", "the machine class nowhere does not exist"),
            description_contains("m-class", "create it, or correct spec.class.name"),
            description_contains(
                "m-script",
                "add the key userData to the secret of the machine class no-script",
            ),
            description_contains("m-spec", "gigantic"),
            description_contains("m-nonsense", "is empty after creation flow"),
        ]),
    )
    .eventually(joining(), running("m-1"))
    .step(class("nowhere", "small", SECRET))
    .step(merged(
        "Secret",
        "without-user-data",
        json!({ "stringData": { "userData": USER_DATA } }),
    ))
    .step(merged(
        "MachineClass",
        "too-large",
        json!({ "providerSpec": { "machineType": "small" } }),
    ))
    .steps([lift("nameless-creation"), lift("nameless-lookup")])
    .eventually(
        creation_timeout(),
        all(["m-class", "m-script", "m-spec", "m-nonsense"].map(running)),
    )
    .always(
        slack(),
        all(["m-1", "m-class", "m-script", "m-spec", "m-nonsense"].map(running)),
    )
}
