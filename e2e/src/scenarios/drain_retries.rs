//! A disruption budget blocks the eviction of a pod, and the machine limits the eviction attempts: the pod is
//! deleted long before the drain timeout.

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
    // The pod never runs, so that the budget counts as satisfiable.
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
        "A disruption budget blocks an eviction: the pod is deleted after the machine's maximum number of attempts.",
    )
    .step(apply(machine))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(apply(budget(2)))
    .step(apply(another))
    .step(apply(worker_on("m-1")))
    .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
    .step(delete_machine("m-1"))
    // Twice the attempts, because a restarted process counts from zero.
    .eventually(2 * slack(), not(exists("Pod", "worker")))
    .eventually(slack(), nothing_left("m-1"))
}
