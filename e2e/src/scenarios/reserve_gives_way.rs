//! Pods of low priority hold capacity in reserve: real ones take their place at once, and what waits then is a machine's
//! worth of pods. A person who sees it makes the machine.

use scenario::Scenario;
use scenario::builder::{all, create_machine, deployment, pods, priority_class, same_pods, slack, vm_count, workload};
use scenario::expect::PodState;

use super::{joining, only_in_a_cluster_of_its_own};

/// A class of priorities belongs to the whole cluster.
const CLASS: &str = "drydock-reserve";

pub(super) fn scenario() -> Scenario {
    let ready = |of: &str, on: &str| pods(of).on(on).are(PodState::Ready).exactly(2);
    let scenario = Scenario::new(
        "reserve_gives_way",
        "Low-priority pods make way for real ones at once, and wait for the machine that a person then makes.",
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
            vm_count("m-2", 0),
        ]),
    )
    .throughout(same_pods("web", "m-1"))
    .step(create_machine("m-2"))
    .eventually(joining() + slack(), ready("reserve", "m-2"));
    only_in_a_cluster_of_its_own(scenario)
}
