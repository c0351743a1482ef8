//! Low-priority pods reserve capacity: real pods preempt them immediately, and the preempted pods fill one
//! machine. A user who sees them pending creates the machine.

use scenario::Scenario;
use scenario::builder::{all, create_machine, deployment, pods, priority_class, same_pods, slack, workload};
use scenario::expect::PodState;

use super::{joining, only_in_a_cluster_of_its_own};

/// A PriorityClass is cluster-scoped.
const CLASS: &str = "drydock-reserve";

pub(super) fn scenario() -> Scenario {
    let ready = |of: &str, on: &str| pods(of).on(on).are(PodState::Ready).exactly(2);
    let scenario = Scenario::new(
        "reserve_gives_way",
        "Real pods preempt low-priority pods immediately, and these wait for the machine that a user then creates.",
    )
    .step(priority_class(CLASS, -10))
    .step(create_machine("m-1"))
    // Two of them fill a machine of two CPUs.
    .step(deployment(workload("reserve").replicas(2).cpu("900m").priority(CLASS)))
    .eventually(joining() + slack(), ready("reserve", "m-1"))
    .step(deployment(workload("web").replicas(2).cpu("900m")))
    .eventually(
        slack(),
        all([
            ready("web", "m-1"),
            pods("reserve").on("m-1").exactly(0),
            pods("reserve").are(PodState::Unschedulable).exactly(2),
        ]),
    )
    .throughout(same_pods("web", "m-1"))
    .step(create_machine("m-2"))
    .eventually(joining() + slack(), ready("reserve", "m-2"));
    only_in_a_cluster_of_its_own(scenario)
}
