//! The ReplicaSet controller's watches and views.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;

use super::{Scene, Workload, queue_owners};
use crate::workloads::{meta, plan, pods, replica_set};
use crate::{Change, Kind, ObjectKey, Queue, View};

/// The ReplicaSet controller.
#[derive(Debug, Default)]
pub(crate) struct ReplicaSets;

impl Workload for ReplicaSets {
    type Root = ReplicaSet;
    const NAME: &'static str = "replicaset-controller";

    fn reads() -> &'static [Kind] {
        &[Kind::Pod]
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        queue_owners::<ReplicaSet, Pod>(change, view, queue, |set| Some(&set.spec.as_ref()?.selector));
    }

    fn decide(&mut self, set: &Arc<ReplicaSet>, scene: Scene<'_>) -> plan::Plan {
        let view = replica_set::View {
            set: Arc::clone(set),
            pods: scene.dependents(&set.metadata),
            related: related(set, &scene),
            failure: scene.failure,
        };
        replica_set::decide(&view, scene.view.now)
    }
}

/// The active pods of all sets with the same controller, without duplicates.
fn related(set: &ReplicaSet, scene: &Scene<'_>) -> Vec<Arc<Pod>> {
    let caches = scene.view.caches;
    let controller = runtime::ownership::controller(&set.metadata).map(|controller| controller.uid.as_str());
    let siblings = controller.into_iter().flat_map(|uid| caches.replica_sets.owned_by(uid));
    let uids = siblings
        .map(|sibling| meta::uid(&sibling.metadata))
        .chain([meta::uid(&set.metadata)]);
    let owned = uids.flat_map(|uid| caches.pods.owned_by(uid));
    let active = owned.filter(|pod| pods::is_active(pod));
    let by_uid: BTreeMap<&str, &Arc<Pod>> = active.map(|pod| (meta::uid(&pod.metadata), pod)).collect();
    by_uid.into_values().cloned().collect()
}
