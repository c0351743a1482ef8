//! The status of a StatefulSet.

use k8s_openapi::api::apps::v1::StatefulSetStatus;
use k8s_openapi::api::core::v1::Pod;

use super::scene::{Scene, is_running_and_ready};
use super::{identity, update};
use crate::workloads::meta::{self, count, counted};
use crate::workloads::pods;

/// Counts pods, and completes an update when all pods are ready with the new version.
pub(super) fn status(scene: &Scene<'_>) -> StatefulSetStatus {
    let before = scene.view.set.status.clone().unwrap_or_default();
    let created = |pod: &Pod| !pods::phase(pod).is_empty();
    let counted_if =
        |holds: &dyn Fn(&Pod) -> bool| count(scene.pods.iter().filter(|pod| created(pod) && holds(pod)).count());
    let of_version =
        |name: &str| counted_if(&|pod| !meta::is_deleting(&pod.metadata) && identity::revision_of(pod) == name);
    let replicas = counted_if(&|_| true);
    let ready = counted_if(&is_running_and_ready);
    let updated = of_version(&scene.update.name);
    let mut status = StatefulSetStatus {
        replicas,
        ready_replicas: counted(ready),
        available_replicas: Some(counted_if(&|pod| scene.is_available(pod))),
        current_replicas: counted(of_version(&scene.current.name)),
        updated_replicas: counted(updated),
        current_revision: Some(scene.current.name.clone()),
        update_revision: Some(scene.update.name.clone()),
        observed_generation: scene.view.set.metadata.generation,
        collision_count: Some(before.collision_count.unwrap_or_default()),
        conditions: before.conditions,
    };
    let done = updated == replicas && ready == replicas && replicas == scene.replicas();
    if !update::is_on_delete(scene) && done {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}
