//! A machine with a pod on its node is deleted: the pod is evicted and terminates before the VM is deleted.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, apply, create_machine, delete_machine, exists, field, phase, slack, vm_count};
use serde_json::json;

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "worker" },
        "spec": {
            "nodeName": "m-1",
            "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "worker", "image": "worker" }],
        },
    });
    Scenario::new(
        "drain",
        "A machine with a pod on its node is deleted: the pod terminates before the VM is deleted.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(apply(pod))
    .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
    .never(slack(), all([exists("Pod", "worker"), vm_count("m-1", 0)]))
    .meanwhile()
    .step(delete_machine("m-1"))
    .eventually(slack(), nothing_left("m-1"))
}
