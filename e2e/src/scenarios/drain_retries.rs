//! A disruption budget never lets a pod go, and the machine says how often that may be tried: then the pod is deleted, long
//! before the time of the drain is up.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{apply, delete_machine, exists, field, not, phase, slack};
use serde_json::json;

use super::workers::{budget, worker_on};
use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m-1" },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "maxEvictRetries": 2 },
    });
    // It never runs, so that the budget is one that a person might still meet.
    let another = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "waiting", "labels": { "app": "worker" } },
        "spec": {
            "nodeSelector": { "nobody": "has-it" },
            "containers": [{ "name": "worker", "image": "worker" }],
        },
    });
    Scenario::new(
        "drain_retries",
        "A budget never lets a pod go: after as many attempts as the machine allows it is deleted.",
    )
    .step(apply(machine))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(apply(budget(2)))
    .step(apply(another))
    .step(apply(worker_on("m-1")))
    .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
    .step(delete_machine("m-1"))
    // Twice the attempts, should the process that counts them be another one in between.
    .eventually(2 * slack(), not(exists("Pod", "worker")))
    .eventually(slack(), nothing_left("m-1"))
}
