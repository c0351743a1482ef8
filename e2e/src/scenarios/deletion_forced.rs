//! A disruption budget blocks the eviction of a pod, and a user cannot wait: a label on the machine ends the
//! drain long before its timeout.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, apply, create_machine, delete_machine, drain_timeout, exists, field, phase, slack, vm_count,
};
use scenario::step::{Patch, Step};
use serde_json::json;

use super::workers::{budget, worker_on};
use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let label = Step::Patch(Patch {
        api_version: None,
        kind: "Machine".to_owned(),
        name: "m-1".to_owned(),
        namespace: None,
        merge: json!({ "metadata": { "labels": { keys::FORCE_DELETION_LABEL: "True" } } }),
        status: false,
    });
    Scenario::new(
        "deletion_forced",
        "A disruption budget blocks a drain, and a user labels the machine for forced deletion: it is deleted \
         immediately.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(apply(budget(1)))
    .step(apply(worker_on("m-1")))
    .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
    .step(delete_machine("m-1"))
    .always(drain_timeout() / 4, all([exists("Pod", "worker"), vm_count("m-1", 1)]))
    .step(label)
    .eventually(slack(), nothing_left("m-1"))
}
