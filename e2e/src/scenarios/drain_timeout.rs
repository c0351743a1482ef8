//! A disruption budget blocks an eviction beyond the drain timeout: the pod is deleted, volumes are detached
//! from the node, and the VM is deleted.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, apply, create_machine, delete_machine, drain_timeout, exists, field, patch_status, phase, slack, vm_count,
};
use serde_json::json;

use super::workers::{budget, worker_on};
use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": { "name": "of-worker" },
        "spec": {
            "attacher": "nobody.example.com",
            "nodeName": "m-1",
            "source": { "persistentVolumeName": "of-worker" },
        },
    });
    let attached = json!({ "status": { "volumesAttached": [{ "name": "of-worker", "devicePath": "" }] } });
    Scenario::new(
        "drain_timeout",
        "A disruption budget blocks an eviction beyond the drain timeout: the pod is deleted before the VM is deleted.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(apply(budget(1)))
    .step(apply(worker_on("m-1")))
    .eventually(slack(), field("Pod", "worker", "/status/phase", "Running"))
    .step(apply(attachment))
    .step(patch_status("Node", "m-1", attached))
    .never(drain_timeout(), all([exists("Pod", "worker"), vm_count("m-1", 0)]))
    .meanwhile()
    .step(delete_machine("m-1"))
    .always(drain_timeout() / 2, all([exists("Pod", "worker"), vm_count("m-1", 1)]))
    .eventually(drain_timeout() + slack(), nothing_left("m-1"))
}
