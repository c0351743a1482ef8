//! Preservation: machines that are kept for analysis, for their time and no longer.
//!
//! What must not live here: what a rollout or a scale-down does with them, see `preservation_limits`.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, any, apply, boot_delay, creation_timeout, field, health_timeout, kubelet, machine_gone, mcm,
    node_grace, not, phase, preserve_timeout, seconds, slack, unchanged, vm_count, wait,
};
use scenario::step::{Annotate, KubeletAction, ProcessAction};
use scenario::{Condition, DurationExpression, Step};
use serde_json::{Value, json};

use super::joining;
use super::preservation_edits::until;

/// The set of these scenarios.
pub(super) const SET: &str = "ms-a";

/// All scenarios about one machine.
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

/// A machine of the set's labels.
pub(super) fn member(name: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name, "labels": { "name": SET } },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
    }))
}

/// The set, which adopts what is there.
pub(super) fn set(replicas: u32, maximum: u32) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": { "name": SET },
        "spec": {
            "replicas": replicas,
            "autoPreserveFailedMax": maximum,
            "selector": { "matchLabels": { "name": SET } },
            "template": {
                "metadata": { "labels": { "name": SET } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }))
}

/// A world whose set has these machines, all Running.
pub(super) fn pool(name: &str, about: &str, machines: &[&str], maximum: u32) -> Scenario {
    let replicas = u32::try_from(machines.len()).unwrap_or_default();
    Scenario::new(name, about)
        .steps(machines.iter().map(|machine| member(machine)))
        .eventually(
            joining(),
            all(machines.iter().map(|machine| phase(machine, Phase::Running))),
        )
        .step(set(replicas, maximum))
        .eventually(slack(), field("MachineSet", SET, "/status/readyReplicas", replicas))
}

pub(super) fn preserve(kind: &str, name: &str, value: &str) -> Step {
    annotate(kind, name, keys::PRESERVE_ANNOTATION, value)
}

pub(super) fn remove(kind: &str, name: &str, key: &str) -> Step {
    Step::Annotate(Annotate {
        kind: kind.to_owned(),
        name: name.to_owned(),
        annotations: [(key.to_owned(), None)].into(),
    })
}

pub(super) fn annotation(kind: &str, name: &str, key: &str, value: impl Into<Value>) -> Condition {
    let pointer = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    field(kind, name, &pointer, value)
}

/// From the last sign of life to Failed.
pub(super) fn failing() -> DurationExpression {
    node_grace() + health_timeout() + slack()
}

fn expiry(machine: &str, is: impl Into<Value>) -> Condition {
    field("Machine", machine, "/status/currentStatus/preserveExpiryTime", is)
}

/// It failed and is kept, and the autoscaler keeps away from its node.
pub(super) fn kept(machine: &str) -> Condition {
    all([
        phase(machine, Phase::FailedPreserved),
        not(expiry(machine, Value::Null)),
        annotation("Node", machine, keys::SCALE_DOWN_DISABLED_ANNOTATION, "true"),
        tainted(machine),
        vm_count(machine, 1),
    ])
}

/// New pods do not go to its node; other taints may be there.
pub(super) fn tainted(machine: &str) -> Condition {
    any((0..4).map(|index| {
        field(
            "Node",
            machine,
            &format!("/spec/taints/{index}/key"),
            keys::PRESERVED_TAINT,
        )
    }))
}

/// Nothing tells of a preservation any more.
pub(super) fn forgotten(machine: &str) -> Condition {
    all([
        phase(machine, Phase::Running),
        expiry(machine, Value::Null),
        field("Machine", machine, "/status/preservation", Value::Null),
        annotation("Node", machine, keys::SCALE_DOWN_DISABLED_ANNOTATION, Value::Null),
        annotation(
            "Node",
            machine,
            keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION,
            Value::Null,
        ),
    ])
}

fn now() -> Scenario {
    Scenario::new(
        "preserve_now",
        "A person keeps a Running machine from the autoscaler by an annotation on its Node; after its time all is as before.",
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
    .always(preserve_timeout() - 3 * slack(), phase("m-1", Phase::RunningPreserved))
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
    pool(
        "preserve_when_failed",
        "A machine whose Node asks for it is kept when it fails, and replaced when its time is over.",
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
    pool(
        "preserve_automatically",
        "Two of three machines fail at once and one may be kept: one is, the other is replaced.",
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
        "The annotation false ends a preservation: a Running machine runs on, a Failed one is replaced, and another may be kept.",
        &["m-1", "m-2", "m-3"],
        1,
    )
    .step(preserve("Machine", "m-3", "now"))
    .eventually(
        slack(),
        kept_running("m-3"),
    )
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

/// A person asked for that machine, which runs, and its Node says so.
pub(super) fn kept_running(machine: &str) -> Condition {
    all([
        phase(machine, Phase::RunningPreserved),
        node_says(machine, "True", "Preserved by user."),
    ])
}

/// The Node has the condition `Preserved` of that status and reason, which is written after the machine's phase.
pub(super) fn node_says(machine: &str, status: &str, reason: &str) -> Condition {
    let told = |position: u32| {
        let part = |name: &str, is: &str| {
            let pointer = format!("/status/conditions/{position}/{name}");
            field("Node", machine, &pointer, is)
        };
        all([
            part("type", keys::PRESERVED_CONDITION),
            part("status", status),
            part("reason", reason),
        ])
    };
    any((0..6).map(told))
}

fn recovers() -> Scenario {
    pool(
        "preserve_recovers",
        "A machine that was kept automatically is healthy again: it runs, stays preserved for its time, and its place is free.",
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
        "A machine that never joined is kept by its own annotation, with its VM.",
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

/// Machines whose VMs take longer to come up than they may.
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
        "The Node's annotation wins and is written to the Machine; when it goes, so does the Machine's.",
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
    pool(
        "preserve_expires_while_the_controller_is_down",
        "While no controller runs, a failed machine and a running one expire, and what asks for a third is taken away: all three end when one runs.",
        &["m-1", "m-2", "m-3"],
        1,
    )
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(failing() + slack(), kept("m-1"))
    .steps(running.map(|machine| preserve("Node", machine, "now")))
    .eventually(
        slack(),
        all(running.map(kept_running)),
    )
    .step(until("m-3", "2199-01-01T00:00:00Z"))
    .step(mcm(ProcessAction::Kill))
    .step(remove("Node", "m-3", keys::PRESERVE_ANNOTATION))
    .step(wait(preserve_timeout() + seconds(10)))
    .always(
        slack(),
        all([unchanged("Machine", "m-1", "/metadata/uid"), preserved]),
    )
    .step(mcm(ProcessAction::Start))
    .eventually(
        3 * slack() + boot_delay(),
        all([machine_gone("m-1"), forgotten("m-2"), forgotten("m-3")]),
    )
}
