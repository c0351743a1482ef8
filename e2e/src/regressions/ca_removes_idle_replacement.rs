//! R61 `ca-removes-idle-replacement`: the replacement of an unhealthy machine was removed as unneeded while the
//! old machine was still draining; after the drain its pods had no node.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::builder::{
    all, budget, delete, deployment, flap, machine_gone, may_miss, pods, scale_down_empty, seconds, slack, workload,
};
use scenario::expect::PodState;

use super::worlds::{at_size, case, pool, settled};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R61",
        name: "ca-removes-idle-replacement",
        origin: "MCM#758",
        group: Group::Rollouts,
        confidence: Confidence::Symptom,
        cases: vec![case("R61", idle_replacement(), &[EXPECTED])],
        open: "",
    }
}

/// Each machine has one pod. A disruption budget blocks the drain of the first one for an hour and a half, and
/// cluster-autoscaler removes nodes that are empty for half an hour.
fn idle_replacement() -> Scenario {
    let ready = || pods("web").are(PodState::Ready);
    let story = story(
        "r61-idle-replacement",
        "A replaced machine drains for long, and cluster-autoscaler removes idle nodes: the replacement stays for the \
         machine's pods.",
    );
    settled(story, &[pool(3)])
        .step(deployment(workload("web").replicas(3).cpu("1500m")))
        .step(budget("web", 0))
        .eventually(slack(), ready().exactly(3))
        .step(flap(
            "md-a-1",
            "KernelDeadlock",
            ["True", "True"],
            seconds(60),
            seconds(60),
        ))
        // It removes the replacement only if nothing protects it.
        .step(may_miss(scale_down_empty(POOL, seconds(1800), seconds(90 * 60))))
        .step(delete("PodDisruptionBudget", "web"))
        .eventually(joining() + slack(), all([machine_gone("md-a-1"), ready().exactly(3)]))
        .eventually(seconds(600), at_size(3))
}
