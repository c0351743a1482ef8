//! A namespace with workloads and a volume is deleted: its content is deleted, a finalizer on one object blocks
//! it, and it disappears after the finalizer is removed.

use scenario::Scenario;
use scenario::builder::{
    all, apply, create_machine, delete, deployment, exists, field, namespace, not, patch, pods, slack, stateful_set,
    storage_class, volumes_of, workload,
};
use scenario::expect::PodState;
use serde_json::json;

use super::{joining, only_in_a_cluster_of_its_own};

const TEAM: &str = "drydock-team";

pub(super) fn scenario() -> Scenario {
    let blocker = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "held", "namespace": TEAM, "finalizers": ["example.com/hold"] },
    });
    let ready = |of: &str| pods(of).are(PodState::Ready).exactly(1);
    let scenario = Scenario::new(
        "namespace_goes",
        "A namespace with workloads and a volume is deleted: it disappears after the finalizer of its last object is \
         removed.",
    )
    .step(storage_class())
    .step(namespace(TEAM))
    .step(create_machine("m-1"))
    .step(deployment(workload("web").in_namespace(TEAM)))
    .step(stateful_set(workload("db").volume("1Gi").in_namespace(TEAM)))
    .step(apply(blocker))
    .eventually(
        joining() + 2 * slack(),
        all([ready("web"), ready("db"), volumes_of("data-db-0", 1)]),
    )
    .step(delete("Namespace", TEAM))
    .eventually(
        2 * slack(),
        all([
            pods("web").exactly(0),
            pods("db").exactly(0),
            not(exists("Deployment", "web")),
            not(exists("StatefulSet", "db")),
            not(exists("PersistentVolumeClaim", "data-db-0")),
            volumes_of("data-db-0", 0),
        ]),
    )
    .always(slack() / 2, field("Namespace", TEAM, "/status/phase", "Terminating"))
    .step(patch(
        "ConfigMap",
        "held",
        TEAM,
        json!({ "metadata": { "finalizers": null } }),
    ))
    .eventually(2 * slack(), not(exists("Namespace", TEAM)));
    only_in_a_cluster_of_its_own(scenario)
}
