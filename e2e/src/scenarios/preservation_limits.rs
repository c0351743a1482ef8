//! Preservation and the size of a set: the maximum, scale-down, and what overrides it.

use harness::Scenario;
use harness::scenario::Step;
use harness::scenario::builder::{
    all, boot_delay, field, kubelet, machine_gone, patch_spec, phase, slack, vm, vm_count,
};
use harness::scenario::step::{KubeletAction, VmAction};
use mcm_api::Phase;
use serde_json::{Value, json};

use super::joining;
use super::preservation::{SET, failing, kept, pool, preserve};

/// All scenarios about the size of a set.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![maximum_lowered(), scaled_down(), hibernated(), vm_dies()]
}

fn scale(replicas: u32) -> Step {
    patch_spec("MachineSet", SET, json!({ "replicas": replicas }))
}

fn maximum_lowered() -> Scenario {
    pool(
        "preserve_maximum_lowered",
        "A lowered maximum releases the automatic ones that were created first, and no more than it must.",
        &["m-1", "m-2", "m-3"],
        2,
    )
    .step(kubelet("m-2", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-2"))
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), all([kept("m-1"), kept("m-2")]))
    .step(patch_spec("MachineSet", SET, json!({ "autoPreserveFailedMax": 1 })))
    .eventually(2 * slack() + boot_delay(), machine_gone("m-1"))
    .always(slack(), kept("m-2"))
    .step(patch_spec("MachineSet", SET, json!({ "autoPreserveFailedMax": 0 })))
    .eventually(2 * slack() + boot_delay(), machine_gone("m-2"))
    .eventually(
        joining(),
        all([
            field("MachineSet", SET, "/status/readyReplicas", 3),
            field("MachineSet", SET, "/status/preservations", Value::Null),
        ]),
    )
}

fn scaled_down() -> Scenario {
    pool(
        "preserve_scaled_down",
        "Of fewer replicas the preserved machines go last, and the number is honoured all the same.",
        &["m-1", "m-2", "m-3"],
        0,
    )
    .step(preserve("Node", "m-2", "now"))
    .eventually(slack(), phase("m-2", Phase::RunningPreserved))
    .step(scale(1))
    .eventually(2 * slack() + boot_delay(), all(["m-1", "m-3"].map(machine_gone)))
    .always(slack(), phase("m-2", Phase::RunningPreserved))
    .step(scale(0))
    .eventually(
        2 * slack() + boot_delay(),
        all([machine_gone("m-2"), vm_count("m-2", 0)]),
    )
}

fn hibernated() -> Scenario {
    pool(
        "preserve_hibernated",
        "Scaled to nothing a set has nothing, whatever is preserved.",
        &["m-1", "m-2"],
        1,
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .step(scale(0))
    .eventually(2 * slack() + boot_delay(), all(["m-1", "m-2"].map(machine_gone)))
    .eventually(slack(), all(["m-1", "m-2"].map(|machine| vm_count(machine, 0))))
}

fn vm_dies() -> Scenario {
    pool(
        "preserve_dead_vm",
        "A VM dies: its machine is kept with what is left of it, and its deletion is clean.",
        &["m-1", "m-2"],
        1,
    )
    .step(vm("m-1", VmAction::Kill))
    .eventually(failing() + slack(), phase("m-1", Phase::FailedPreserved))
    .always(slack(), vm_count("m-1", 1))
    .step(preserve("Machine", "m-1", "false"))
    .eventually(
        2 * slack() + boot_delay(),
        all([machine_gone("m-1"), vm_count("m-1", 0)]),
    )
}
