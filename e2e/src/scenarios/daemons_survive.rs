//! A node is drained: its DaemonSet pod stays unchanged, all other pods are evicted, and a joining node gets a
//! DaemonSet pod.

use scenario::Scenario;
use scenario::builder::{
    all, create_machine, creation_timeout, daemon_set, deployment, drain, pods, same_pods, slack, workload,
};
use scenario::expect::PodState;

use super::joining;

pub(super) fn scenario() -> Scenario {
    let ready = |of: &str, on: &str, number| pods(of).on(on).are(PodState::Ready).exactly(number);
    Scenario::new(
        "daemons_survive",
        "A node is drained: its DaemonSet pod stays unchanged, and a new node gets a DaemonSet pod of its own.",
    )
    .step(create_machine("m-1"))
    .step(daemon_set(workload("agent")))
    .step(deployment(workload("web").replicas(2)))
    .eventually(
        joining() + slack(),
        all([ready("agent", "m-1", 1), ready("web", "m-1", 2)]),
    )
    .throughout(same_pods("agent", "m-1"))
    .step(drain("m-1", creation_timeout()))
    .step(create_machine("m-2"))
    .eventually(
        joining() + slack(),
        all([
            ready("agent", "m-1", 1),
            ready("agent", "m-2", 1),
            ready("web", "m-2", 2),
            pods("web").on("m-1").exactly(0),
        ]),
    )
}
