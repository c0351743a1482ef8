//! Preservation and the size of a set: the maximum, scale-down, and what overrides preservation.

use mcm_api::Phase;
use scenario::builder::{
    all, apply, boot_delay, drain_timeout, exists, field, kubelet, machine_gone, patch_spec, phase, seconds, slack, vm,
    vm_count, wait,
};
use scenario::step::{KubeletAction, VmAction};
use scenario::{Scenario, Step};
use serde_json::{Value, json};

use super::preservation_steps::long;
use super::preservation_steps::{SET, failing, kept, long_set, member, pool, preserve};
use super::workers::{budget, worker_on};
use super::{joining, nothing_left};
use crate::regressions::worlds::{self, Pool, settled};

/// All scenarios about the size of a set.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        maximum_lowered(),
        scaled_down(),
        hibernated(),
        hibernated_in_a_drain(),
        vm_dies(),
    ]
}

fn scale(replicas: u32) -> Step {
    patch_spec("MachineSet", SET, json!({ "replicas": replicas }))
}

/// The oldest machine is neither the first to fail nor the first by name.
fn maximum_lowered() -> Scenario {
    let machines = ["m-2", "m-1", "m-3"];
    Scenario::new(
        "preserve_maximum_lowered",
        "A lowered maximum releases the automatically preserved machines that were created first, and only as many as \
         necessary.",
    )
    .step(member("m-2"))
    .step(wait(seconds(2)))
    .steps([member("m-1"), member("m-3")])
    .eventually(joining(), all(machines.map(|machine| phase(machine, Phase::Running))))
    .step(long_set(3, 2))
    .eventually(slack(), field("MachineSet", SET, "/status/readyReplicas", 3))
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .step(kubelet("m-2", KubeletAction::Stop))
    .eventually(failing() + slack(), all([kept("m-1"), kept("m-2")]))
    .step(patch_spec("MachineSet", SET, json!({ "autoPreserveFailedMax": 1 })))
    .eventually(2 * slack() + boot_delay(), machine_gone("m-2"))
    .always(slack(), kept("m-1"))
    .step(patch_spec("MachineSet", SET, json!({ "autoPreserveFailedMax": 0 })))
    .eventually(2 * slack() + boot_delay(), machine_gone("m-1"))
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
        "On a scale-down preserved machines are deleted last, and the number of replicas is reached all the same.",
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
        "A set scaled to zero has no machines, even if some were preserved.",
        &["m-1", "m-2"],
        1,
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .step(scale(0))
    .eventually(2 * slack() + boot_delay(), all(["m-1", "m-2"].map(machine_gone)))
    .eventually(slack(), all(["m-1", "m-2"].map(|machine| vm_count(machine, 0))))
}

/// The budget protects the pod on the node with the full disk until the drain timeout.
fn hibernated_in_a_drain() -> Scenario {
    let draining = field("Machine", "md-a-1", "/status/preservation/stage", "Draining");
    let usual = long(Pool {
        maximum: 1,
        ..worlds::pool(3)
    });
    let story = Scenario::new(
        "preserve_hibernated_in_a_drain",
        "A deployment is scaled to zero while one machine is drained for its preservation and another is preserved: \
         all machines are deleted.",
    );
    settled(story, &[usual])
        .step(preserve("Node", "md-a-2", "now"))
        .eventually(slack(), phase("md-a-2", Phase::RunningPreserved))
        .step(apply(budget(1)))
        .step(apply(worker_on("md-a-1")))
        .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(failing(), all([draining, exists("Pod", "worker")]))
        .step(worlds::scale(0))
        .eventually(
            drain_timeout() + 2 * slack() + boot_delay(),
            all(["md-a-1", "md-a-2", "md-a-3"].map(nothing_left)),
        )
}

fn vm_dies() -> Scenario {
    pool(
        "preserve_dead_vm",
        "A VM dies: its machine is preserved without the VM, and its deletion leaves nothing behind.",
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
