//! A disruption budget never lets a pod go, and a person cannot wait: a label on the machine ends the drain, long before its
//! time is up.

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
        kind: "Machine".to_owned(),
        name: "m-1".to_owned(),
        namespace: None,
        merge: json!({ "metadata": { "labels": { keys::FORCE_DELETION_LABEL: "True" } } }),
        status: false,
    });
    Scenario::new(
        "deletion_forced",
        "A budget holds a drain up, and a person labels the machine to force its deletion: it goes at once.",
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
