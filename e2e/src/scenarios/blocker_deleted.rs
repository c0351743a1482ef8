//! A disruption budget blocks the eviction of a pod; a user deletes the pod, and the drain continues.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, apply, create_machine, delete, delete_machine, exists, field, phase, slack, vm_count};
use serde_json::json;

use super::workers::{budget, worker_on};
use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let mut pod = worker_on("m-1");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    Scenario::new(
        "blocker_deleted",
        "A drain waits for a pod that a disruption budget protects, and a user deletes the pod: the machine is deleted \
         without further delay.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(apply(budget(1)))
    .step(apply(pod))
    .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
    .step(delete_machine("m-1"))
    .eventually(slack(), phase("m-1", Phase::Terminating))
    .always(slack() / 2, all([exists("Pod", "worker"), vm_count("m-1", 1)]))
    .step(delete("Pod", "worker"))
    .eventually(slack(), nothing_left("m-1"))
}
