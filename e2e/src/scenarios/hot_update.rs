//! The provider spec of a class changes in place: mcm updates the VMs of its machines without replacing them,
//! also after a failed update or a crash during an update, and also when the spec is reverted.

use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, calls_at_least, create_machine, creation_timeout, fail_calls, field, lift, mcm, phase, slack, slow_call,
    unchanged, vm_count, wait,
};
use scenario::step::{CloudCall, Patch, ProcessAction, Step};
use serde_json::{Value, json};

use super::joining;

pub(super) fn scenario() -> Scenario {
    story(
        "hot_update",
        "The provider spec of a class changes in place: the VM is updated, also after a failure and a crash.",
    )
}

/// The steps, which do not depend on how mcm and the driver find each other.
pub(super) fn story(name: &str, about: &str) -> Scenario {
    let operation = |state: &str| {
        all([
            field("Machine", "m-1", "/status/lastOperation/type", "Update"),
            field("Machine", "m-1", "/status/lastOperation/state", state),
        ])
    };
    let updated = |calls: u64| {
        all([
            calls_at_least(CloudCall::UpdateMachine, "m-1", calls),
            operation("Successful"),
            vm_count("m-1", 1),
        ])
    };
    Scenario::new(name, about)
        .step(create_machine("m-1"))
        .eventually(joining(), phase("m-1", Phase::Running))
        .throughout(unchanged("Machine", "m-1", "/spec/providerID"))
        .step(tag(json!("blue")))
        .eventually(slack(), updated(1))
        .step(fail_calls("half-way", CloudCall::UpdateMachine, "m-1", Code::Internal))
        .step(tag(json!("green")))
        .eventually(slack(), operation("Failed"))
        .step(tag(json!("blue")))
        .step(lift("half-way"))
        .eventually(creation_timeout(), updated(3))
        .step(slow_call("slow", CloudCall::UpdateMachine, "m-1", slack()))
        .step(tag(json!("green")))
        .eventually(slack(), operation("Processing"))
        // The call begins after this status is written.
        .step(wait(slack() / 10))
        .step(mcm(ProcessAction::Kill))
        .step(lift("slow"))
        .step(tag(json!("blue")))
        .step(wait(slack() / 10))
        .step(mcm(ProcessAction::Start))
        .eventually(creation_timeout(), updated(4))
}

/// Changes the class so that its VMs get this tag.
fn tag(colour: Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: "MachineClass".to_owned(),
        name: "class-a".to_owned(),
        namespace: None,
        merge: json!({ "providerSpec": { "tags": { "colour": colour } } }),
        status: false,
    })
}
