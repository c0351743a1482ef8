//! A node is drained whose pods have a disruption budget of one: they move one by one, and at most one is
//! unavailable.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, budget, create_machine, creation_timeout, deployment, drain, phase, pods, slack, workload,
};
use scenario::expect::PodState;

use super::joining;

pub(super) fn scenario() -> Scenario {
    let ready = || pods("web").are(PodState::Ready);
    Scenario::new(
        "evictions_under_budget",
        "A node is drained whose pods have a disruption budget of one: they move one by one, and at most one is \
         unavailable.",
    )
    .step(create_machine("m-1"))
    .step(deployment(workload("web").replicas(3)))
    .step(budget("web", 1))
    .eventually(joining() + slack(), ready().on("m-1").exactly(3))
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .throughout(ready().at_least(2))
    .step(drain("m-1", creation_timeout()))
    .eventually(
        slack(),
        all([ready().on("m-2").exactly(3), pods("web").on("m-1").exactly(0)]),
    )
}
