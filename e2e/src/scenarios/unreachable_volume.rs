//! The kubelet of a node with a volume stops permanently: a user removes the pod that no kubelet terminates,
//! and its volume follows it to another node after six minutes, not earlier.

use mcm_api::Phase;
use scenario::builder::{
    all, attached_at_most, attached_to, create_machine, force_delete, forced_detach, kubelet, node_grace, phase,
    pod_toleration, pods, slack, stateful_set, storage_class, workload,
};
use scenario::expect::PodState;
use scenario::step::KubeletAction;
use scenario::{Scenario, StageKind};

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "unreachable_volume",
        "A node with a volume is unresponsive: the volume is detached by force after six minutes and follows its pod.",
    )
    .only_on(
        [StageKind::Sim],
        "attach-detach waits six minutes for a node, which no setting shortens",
    )
    .step(storage_class())
    .step(create_machine("m-1"))
    .step(stateful_set(workload("db").volume("1Gi").tolerating(pod_toleration())))
    .eventually(
        joining() + slack(),
        pods("db").on("m-1").are(PodState::Ready).exactly(1),
    )
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .throughout(attached_at_most("data-db-0", 1))
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(
        node_grace() + pod_toleration() + slack(),
        pods("db").on("m-1").are(PodState::Terminating).exactly(1),
    )
    // Two pods must not have the same name, so a StatefulSet waits for the one that no kubelet terminates.
    .always(slack(), pods("db").exactly(1))
    .step(force_delete("Pod", "db-0"))
    .eventually(slack(), pods("db").on("m-2").exactly(1))
    .always(
        forced_detach() - 2 * slack(),
        all([
            attached_to("data-db-0", "m-1"),
            pods("db").are(PodState::Ready).exactly(0),
        ]),
    )
    .eventually(
        3 * slack(),
        all([
            attached_to("data-db-0", "m-2"),
            pods("db").on("m-2").are(PodState::Ready).exactly(1),
        ]),
    )
}
