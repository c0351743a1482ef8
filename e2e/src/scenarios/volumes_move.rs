//! The pods of a StatefulSet are evicted: each is created again under its name on another node with its volume,
//! which is never attached to both nodes.

use mcm_api::Phase;
use scenario::builder::{
    all, attached_at_most, attached_to, create_machine, creation_timeout, drain, field, phase, pods, slack,
    stateful_set, storage_class, unchanged, workload,
};
use scenario::expect::PodState;
use scenario::{Condition, Scenario};

use super::{joining, only_in_a_cluster_of_its_own};

const CLAIMS: [&str; 2] = ["data-db-0", "data-db-1"];

pub(super) fn scenario() -> Scenario {
    let on = |machine: &str| {
        let attached = CLAIMS.map(|claim| attached_to(claim, machine));
        let ready = pods("db").on(machine).are(PodState::Ready).exactly(2);
        all(attached.into_iter().chain([ready]))
    };
    let stays = |claim: &str| -> Condition {
        all([
            unchanged("PersistentVolumeClaim", claim, "/metadata/uid"),
            unchanged("PersistentVolumeClaim", claim, "/spec/volumeName"),
            field("PersistentVolumeClaim", claim, "/status/phase", "Bound"),
            attached_at_most(claim, 1),
        ])
    };
    let scenario = Scenario::new(
        "volumes_move",
        "Evicted pods of a StatefulSet are created again on another node with their volumes, each attached to one node \
         at a time.",
    )
    .step(storage_class())
    .step(create_machine("m-1"))
    .step(stateful_set(workload("db").replicas(2).volume("1Gi")))
    .eventually(joining() + 2 * slack(), on("m-1"))
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
    .throughout(all(CLAIMS.map(stays)))
    .step(drain("m-1", creation_timeout()))
    .eventually(2 * slack(), on("m-2"));
    only_in_a_cluster_of_its_own(scenario)
}
