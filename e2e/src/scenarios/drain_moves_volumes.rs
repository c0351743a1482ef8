//! A machine is deleted whose pods have volumes: its drain evicts them one by one. Each volume is attached to
//! one node at a time, and is attached elsewhere before the next pod is evicted.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, attached_at_most, attached_to, create_machine, creation_timeout, delete_machine, phase, pods, slack,
    stateful_set, storage_class, workload,
};
use scenario::expect::PodState;

use super::{joining, nothing_left, only_in_a_cluster_of_its_own};

const CLAIMS: [&str; 2] = ["data-db-0", "data-db-1"];

pub(super) fn scenario() -> Scenario {
    let ready = || pods("db").are(PodState::Ready);
    let on = |machine: &str| {
        let attached = CLAIMS.map(|claim| attached_to(claim, machine));
        all(attached.into_iter().chain([ready().on(machine).exactly(2)]))
    };
    let scenario = Scenario::new(
        "drain_moves_volumes",
        "A machine is deleted whose pods have volumes: they are evicted one by one, and each volume is attached to one \
         node at a time.",
    )
    .step(storage_class())
    .step(create_machine("m-1"))
    .step(stateful_set(workload("db").replicas(2).volume("1Gi")))
    .eventually(joining() + 2 * slack(), on("m-1"))
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .throughout(all(CLAIMS.map(|claim| attached_at_most(claim, 1))))
    .step(delete_machine("m-1"))
    .eventually(creation_timeout(), all([on("m-2"), nothing_left("m-1")]));
    only_in_a_cluster_of_its_own(scenario)
}
