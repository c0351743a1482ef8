//! Pods that must not run twice on nodes that do not answer: they leave the API only when their VM is known to be stopped or
//! deleted.

use mcm_api::{Code, Phase};
use scenario::builder::{
    all, attached_to, calls_at_least, create_machine, delete_machine, drain_timeout, event_count, fail_calls,
    fault_hits, field, forced_detach, inject, kubelet, lift, machine_gone, medium_retry, patch_spec, phase, pods,
    slack, stateful_set, storage_class, vm, vm_count, workload,
};
use scenario::expect::PodState;
use scenario::step::{CloudCall, Fault, KubeletAction, VmAction};
use scenario::workload::Workload;
use scenario::{Condition, PreserveFencing, Scenario, StageKind};
use serde_json::json;

use super::joining;
use super::preservation_steps::{failing, kept, long, preserve};
use crate::regressions::worlds::{self, settled};

/// All scenarios about pods that must not run twice.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        stops_the_vm(),
        moves_a_volume(),
        repeats_a_failed_stop(),
        driver_without_the_call(),
        sees_a_stopped_vm(),
        waits_for_the_deletion_of_the_vm(),
    ]
}

/// The pod of the StatefulSet on its first machine stays Terminating, and there is no second one.
fn stays() -> Condition {
    all([
        pods("db").exactly(1),
        pods("db").on("md-a-1").are(PodState::Terminating).exactly(1),
    ])
}

fn runs_on(machine: &str) -> Condition {
    all([
        pods("db").exactly(1),
        pods("db").on(machine).are(PodState::Ready).exactly(1),
    ])
}

fn fencing(state: &str) -> Condition {
    field("Machine", "md-a-1", "/status/preservation/fencing/state", state)
}

/// Two machines, with the pod of a StatefulSet on the first.
fn with_pod_on_the_first(story: Scenario, database: Workload) -> Scenario {
    let cordon = |closed: bool| patch_spec("Node", "md-a-2", json!({ "unschedulable": closed }));
    settled(story, &[long(worlds::pool(2))])
        .step(storage_class())
        .step(cordon(true))
        .eventually(slack(), field("Node", "md-a-2", "/spec/unschedulable", true))
        .step(stateful_set(database))
        .eventually(joining() + 2 * slack(), runs_on("md-a-1"))
        .step(cordon(false))
}

/// The kubelet of the first machine is cut off, and the machine is preserved.
fn cut_off(story: Scenario) -> Scenario {
    with_pod_on_the_first(story, workload("db"))
        .step(preserve("Node", "md-a-1", "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Partition))
        .eventually(failing() + drain_timeout() + slack(), all([kept("md-a-1"), stays()]))
}

fn with_fencing(name: &str, about: &str) -> Scenario {
    let mut story = Scenario::new(name, about);
    story.world.fencing = PreserveFencing::StopVm;
    story
}

/// mcm stops the VM because of the pod; a user starts it again, and the machine recovers.
fn stops_the_vm() -> Scenario {
    let story = with_fencing(
        "preserve_stops_a_vm",
        "A preserved machine does not answer: its VM is stopped, and then its StatefulSet's pod starts elsewhere. The \
         machine recovers when a user starts the VM.",
    );
    with_pod_on_the_first(story, workload("db"))
        .step(preserve("Node", "md-a-1", "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Partition))
        .eventually(
            failing() + 2 * drain_timeout() + slack(),
            all([kept("md-a-1"), fencing("Stopped"), runs_on("md-a-2")]),
        )
        .eventually(
            slack(),
            all([
                calls_at_least(CloudCall::StopMachine, "md-a-1", 1),
                event_count("Machine", "md-a-1", "StoppingVM", 1),
                event_count("Machine", "md-a-1", "PodsOfStoppedNodeDeleted", 1),
            ]),
        )
        .always(slack(), all([kept("md-a-1"), vm_count("md-a-1", 1)]))
        .step(kubelet("md-a-1", KubeletAction::Reconnect))
        .step(vm("md-a-1", VmAction::Start))
        .eventually(joining() + slack(), phase("md-a-1", Phase::RunningPreserved))
        .always(
            slack(),
            all([phase("md-a-1", Phase::RunningPreserved), runs_on("md-a-2")]),
        )
        .step(preserve("Node", "md-a-1", "false"))
        .eventually(slack(), phase("md-a-1", Phase::Running))
}

fn moves_a_volume() -> Scenario {
    let story = with_fencing(
        "preserve_moves_a_volume",
        "A preserved machine does not answer: its VM is stopped, and then its StatefulSet's pod starts elsewhere with its \
         volume.",
    );
    with_pod_on_the_first(story, workload("db").volume("1Gi"))
        .step(preserve("Node", "md-a-1", "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Partition))
        .eventually(
            failing() + drain_timeout() + forced_detach() + slack(),
            all([
                fencing("Stopped"),
                runs_on("md-a-2"),
                attached_to("data-db-0", "md-a-2"),
            ]),
        )
        .always(slack(), kept("md-a-1"))
        .only_on(
            [StageKind::Sim],
            "Kubernetes detaches the volume of a node that does not answer after six minutes",
        )
}

/// The first calls fail without an effect; then one has an effect, and its response is lost.
fn repeats_a_failed_stop() -> Scenario {
    let lost = Fault::of("lost", CloudCall::StopMachine)
        .machine("md-a-1")
        .times(1)
        .code(Code::Unavailable)
        .after_commit();
    let story = with_fencing(
        "preserve_repeats_a_stop",
        "StopMachine fails: the StatefulSet's pod stays. Then its response is lost: the cloud reports the VM as stopped, \
         and the pod starts elsewhere.",
    )
    .step(fail_calls("refused", CloudCall::StopMachine, "md-a-1", Code::Internal));
    cut_off(story)
        .eventually(
            drain_timeout() + slack(),
            all([
                fault_hits("refused", 1),
                fencing("Failed"),
                event_count("Machine", "md-a-1", "StopVMFailed", 1),
            ]),
        )
        .always(medium_retry() + slack(), all([kept("md-a-1"), stays()]))
        .step(inject(lost))
        .step(lift("refused"))
        .eventually(
            medium_retry() + 2 * slack(),
            all([fault_hits("lost", 1), fencing("Stopped"), runs_on("md-a-2")]),
        )
}

fn driver_without_the_call() -> Scenario {
    let story = with_fencing(
        "preserve_cannot_stop_a_vm",
        "The driver cannot stop VMs: the StatefulSet's pod on a node that does not answer stays, and an event says why.",
    )
    .step(fail_calls("missing", CloudCall::StopMachine, "md-a-1", Code::Unimplemented));
    cut_off(story)
        .eventually(
            drain_timeout() + slack(),
            all([
                fencing("Failed"),
                field(
                    "Machine",
                    "md-a-1",
                    "/status/preservation/fencing/errorCode",
                    "Unimplemented",
                ),
                event_count("Machine", "md-a-1", "StopVMFailed", 1),
            ]),
        )
        .always(2 * slack(), all([kept("md-a-1"), stays()]))
}

fn sees_a_stopped_vm() -> Scenario {
    let story = Scenario::new(
        "preserve_sees_a_stopped_vm",
        "A preserved machine does not answer, and its StatefulSet's pod stays: when a user stops the VM, the pod starts \
         elsewhere.",
    );
    cut_off(story)
        .always(slack(), all([kept("md-a-1"), stays()]))
        .step(vm("md-a-1", VmAction::Stop))
        .eventually(drain_timeout() + slack(), runs_on("md-a-2"))
        .always(slack(), kept("md-a-1"))
}

/// Not preserved: the machine is deleted, and for a while the cloud does not delete its VM.
fn waits_for_the_deletion_of_the_vm() -> Scenario {
    let stays = || {
        all([
            pods("db").exactly(1),
            pods("db").on("m-1").are(PodState::Terminating).exactly(1),
            vm_count("m-1", 1),
        ])
    };
    Scenario::new(
        "drain_waits_for_the_vm",
        "A machine is deleted whose node does not answer, and the cloud does not delete its VM: its StatefulSet's pod \
         starts elsewhere only when the VM is deleted.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(stateful_set(workload("db")))
    .eventually(
        joining() + slack(),
        pods("db").on("m-1").are(PodState::Ready).exactly(1),
    )
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .step(fail_calls("busy", CloudCall::DeleteMachine, "m-1", Code::Unavailable))
    .step(kubelet("m-1", KubeletAction::Partition))
    .step(delete_machine("m-1"))
    .eventually(drain_timeout() + 2 * slack(), fault_hits("busy", 1))
    .always(2 * slack(), stays())
    .step(lift("busy"))
    .eventually(
        2 * slack(),
        all([
            machine_gone("m-1"),
            pods("db").exactly(1),
            pods("db").on("m-2").are(PodState::Ready).exactly(1),
        ]),
    )
}
