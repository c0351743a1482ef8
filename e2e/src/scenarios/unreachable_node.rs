//! The kubelet of a node stops: its pods stay for their toleration time, and are then replaced on another node.
//! Their remains are deleted when the kubelet is back.

use mcm_api::Phase;
use scenario::builder::{
    all, create_machine, deployment, kubelet, node_grace, phase, pod_toleration, pods, same_pods, seconds, slack,
    workload,
};
use scenario::expect::PodState;
use scenario::step::KubeletAction;
use scenario::{DurationExpression, Scenario};

use super::joining;

/// The time in which node lifecycle taints one node per zone (`--node-eviction-rate=0.1`); m-2 may have used
/// the zone's token when it joined.
fn taint_delay() -> DurationExpression {
    seconds(10)
}

pub(super) fn scenario() -> Scenario {
    let ready = |on: &str| pods("web").on(on).are(PodState::Ready);
    Scenario::new(
        "unreachable_node",
        "A kubelet stops: its pods stay for their toleration time, not longer, and are replaced on another node.",
    )
    .step(create_machine("m-1"))
    .step(deployment(workload("web").replicas(2).tolerating(pod_toleration())))
    .eventually(joining() + slack(), ready("m-1").exactly(2))
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(node_grace() + slack(), phase("m-1", Phase::Unknown))
    .always(3 * pod_toleration() / 4, same_pods("web", "m-1"))
    .eventually(
        taint_delay() + pod_toleration() / 4 + slack(),
        all([
            ready("m-2").exactly(2),
            // No kubelet can confirm that they have terminated.
            pods("web").on("m-1").are(PodState::Terminating).exactly(2),
        ]),
    )
    .step(kubelet("m-1", KubeletAction::Start))
    .eventually(
        slack(),
        all([ready("m-2").exactly(2), pods("web").on("m-1").exactly(0)]),
    )
}
