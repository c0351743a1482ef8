//! A machine is deleted whose pods have a disruption budget of one: they move one by one, at most one pod is
//! unavailable, and no objects of the machine are left.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, budget, create_machine, creation_timeout, delete_machine, deployment, phase, pods, slack, workload,
};
use scenario::expect::PodState;

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let ready = || pods("web").are(PodState::Ready);
    Scenario::new(
        "drain_one_by_one",
        "A machine is deleted whose pods have a disruption budget of one: they move one by one, and at most one is \
         unavailable.",
    )
    .step(create_machine("m-1"))
    .step(deployment(workload("web").replicas(3)))
    .step(budget("web", 1))
    .eventually(joining() + slack(), ready().on("m-1").exactly(3))
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .throughout(ready().at_least(2))
    .step(delete_machine("m-1"))
    .eventually(
        creation_timeout(),
        all([ready().on("m-2").exactly(3), nothing_left("m-1")]),
    )
}
