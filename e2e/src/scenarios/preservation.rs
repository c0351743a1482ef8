//! Preservation: machines are kept for analysis until their expiry.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, boot_delay, creation_timeout, field, kubelet, machine_gone, mcm, not, phase, preserve_timeout,
    seconds, slack, unchanged, vm_count, wait,
};
use scenario::step::{KubeletAction, ProcessAction};
use serde_json::Value;

use super::joining;
use super::preservation_steps::{
    SET, annotation, expiring_pool, expiry, failing, forgotten, kept, kept_running, member, node_says, pool, preserve,
    remove, set, tainted, until,
};

/// All scenarios about a single machine.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        now(),
        when_failed(),
        automatically(),
        early_release(),
        recovers(),
        without_node(),
        node_overrides(),
        controller_down(),
    ]
}

fn now() -> Scenario {
    Scenario::new(
        "preserve_now",
        "A user protects a Running machine from cluster-autoscaler by an annotation on its Node; after the expiry \
         everything is as before.",
    )
    .step(super::create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(preserve("Node", "m-1", "now"))
    .eventually(
        slack(),
        all([
            phase("m-1", Phase::RunningPreserved),
            not(expiry("m-1", Value::Null)),
            annotation("Node", "m-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, "true"),
            annotation("Machine", "m-1", keys::PRESERVE_ANNOTATION, "now"),
        ]),
    )
    .step(annotate("Node", "m-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, "false"))
    .eventually(
        slack(),
        annotation("Node", "m-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, "true"),
    )
    .always(preserve_timeout() - 2 * slack(), phase("m-1", Phase::RunningPreserved))
    .eventually(4 * slack(), forgotten("m-1"))
    .eventually(
        slack(),
        all([
            annotation("Node", "m-1", keys::PRESERVE_ANNOTATION, Value::Null),
            annotation("Machine", "m-1", keys::PRESERVE_ANNOTATION, Value::Null),
        ]),
    )
    .always(slack(), vm_count("m-1", 1))
}

fn when_failed() -> Scenario {
    expiring_pool(
        "preserve_when_failed",
        "A machine whose Node requests preservation is kept when it fails, and replaced after the expiry.",
        &["m-1", "m-2"],
        0,
    )
    .step(preserve("Node", "m-1", "when-failed"))
    .always(slack(), phase("m-1", Phase::Running))
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .eventually(
        slack(),
        all([
            field("MachineSet", SET, "/status/preservations/0/name", "m-1"),
            field("MachineSet", SET, "/status/preservedFailedReplicas", 1),
            field("MachineSet", SET, "/status/replicas", 2),
        ]),
    )
    .always(preserve_timeout() - 2 * slack(), kept("m-1"))
    .eventually(4 * slack(), machine_gone("m-1"))
    .eventually(
        joining(),
        all([
            field("MachineSet", SET, "/status/readyReplicas", 2),
            field("MachineSet", SET, "/status/preservations", Value::Null),
        ]),
    )
}

fn automatically() -> Scenario {
    expiring_pool(
        "preserve_automatically",
        "Two of three machines fail at once with a maximum of one: one is preserved, the other is replaced.",
        &["m-1", "m-2", "m-3"],
        1,
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .step(kubelet("m-2", KubeletAction::Stop))
    .eventually(
        2 * failing() + joining(),
        all([
            field("MachineSet", SET, "/status/preservedFailedReplicas", 1),
            field("MachineSet", SET, "/status/readyReplicas", 2),
            field("MachineSet", SET, "/status/preservations/0/by", "auto"),
            field("MachineSet", SET, "/status/preservations/1", Value::Null),
        ]),
    )
    .always(
        preserve_timeout() / 2 - slack(),
        field("MachineSet", SET, "/status/preservedFailedReplicas", 1),
    )
    .eventually(
        preserve_timeout() + joining(),
        all([
            field("MachineSet", SET, "/status/preservedFailedReplicas", Value::Null),
            field("MachineSet", SET, "/status/readyReplicas", 3),
        ]),
    )
}

fn early_release() -> Scenario {
    pool(
        "preserve_released_early",
        "The annotation value false ends a preservation: a Running machine keeps running, a Failed one is replaced, \
         and another may be preserved.",
        &["m-1", "m-2", "m-3"],
        1,
    )
    .step(preserve("Machine", "m-3", "now"))
    .eventually(slack(), kept_running("m-3"))
    .step(preserve("Node", "m-3", "false"))
    .eventually(
        slack(),
        all([forgotten("m-3"), node_says("m-3", "False", "Preservation stopped.")]),
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .step(preserve("Node", "m-1", "false"))
    .eventually(2 * slack() + boot_delay(), machine_gone("m-1"))
    .eventually(joining(), field("MachineSet", SET, "/status/readyReplicas", 3))
    .step(kubelet("m-2", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-2"))
}

fn recovers() -> Scenario {
    expiring_pool(
        "preserve_recovers",
        "An automatically preserved machine recovers: it is Running, stays preserved until its expiry, and no longer \
         counts against the maximum.",
        &["m-1", "m-2"],
        1,
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .step(kubelet("m-1", KubeletAction::Start))
    .eventually(
        slack(),
        all([
            phase("m-1", Phase::RunningPreserved),
            field("MachineSet", SET, "/status/preservations", Value::Null),
            annotation("Node", "m-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, "true"),
            node_says("m-1", "True", "Preserved by MCM."),
            not(tainted("m-1")),
        ]),
    )
    .eventually(preserve_timeout() + slack(), forgotten("m-1"))
    .always(slack(), phase("m-1", Phase::Running))
}

fn without_node() -> Scenario {
    pool_without_nodes(
        "preserve_without_node",
        "A machine whose node never joined is preserved by its own annotation, with its VM.",
    )
    .step(preserve("Machine", "m-1", "when-failed"))
    .eventually(
        creation_timeout() + slack(),
        all([phase("m-1", Phase::FailedPreserved), vm_count("m-1", 1)]),
    )
    .always(preserve_timeout() / 2, phase("m-1", Phase::FailedPreserved))
    .step(preserve("Machine", "m-1", "false"))
    .eventually(2 * slack() + boot_delay(), machine_gone("m-1"))
}

/// Machines whose VMs take longer to boot than the creation timeout.
fn pool_without_nodes(name: &str, about: &str) -> Scenario {
    Scenario::new(name, about)
        .boots_in(3 * creation_timeout())
        .step(member("m-1"))
        .eventually(slack(), phase("m-1", Phase::Pending))
        .step(set(1, 0))
}

fn node_overrides() -> Scenario {
    Scenario::new(
        "preserve_node_overrides",
        "The annotation of the Node takes precedence and is copied to the Machine; removing it also removes the \
         Machine's.",
    )
    .step(super::create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(preserve("Machine", "m-1", "now"))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .step(preserve("Node", "m-1", "false"))
    .eventually(
        slack(),
        all([
            forgotten("m-1"),
            annotation("Machine", "m-1", keys::PRESERVE_ANNOTATION, "false"),
        ]),
    )
    .step(preserve("Node", "m-1", "now"))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .step(remove("Node", "m-1", keys::PRESERVE_ANNOTATION))
    .eventually(
        slack(),
        all([
            forgotten("m-1"),
            annotation("Machine", "m-1", keys::PRESERVE_ANNOTATION, Value::Null),
        ]),
    )
}

fn controller_down() -> Scenario {
    let running = ["m-2", "m-3"];
    let preserved = all(running.map(|machine| phase(machine, Phase::RunningPreserved)));
    expiring_pool(
        "preserve_expires_while_the_controller_is_down",
        "While no controller runs, a failed and a running machine expire and the request for a third is removed: all \
         three preservations end when a controller runs.",
        &["m-1", "m-2", "m-3"],
        1,
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .steps(running.map(|machine| preserve("Node", machine, "now")))
    .eventually(slack(), all(running.map(kept_running)))
    .step(until("m-3", "2199-01-01T00:00:00Z"))
    .step(mcm(ProcessAction::Kill))
    .step(remove("Node", "m-3", keys::PRESERVE_ANNOTATION))
    .step(wait(preserve_timeout() + seconds(10)))
    .always(slack(), all([unchanged("Machine", "m-1", "/metadata/uid"), preserved]))
    .step(mcm(ProcessAction::Start))
    .eventually(
        3 * slack() + boot_delay(),
        all([machine_gone("m-1"), forgotten("m-2"), forgotten("m-3")]),
    )
}
