//! The StatefulSet controller's watches and views.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::{Scene, Workload, queue_owners};
use crate::workloads::{meta, plan, stateful_set};
use crate::{Change, Kind, ObjectKey, Queue, View};

/// The StatefulSet controller.
#[derive(Debug, Default)]
pub(crate) struct StatefulSets;

impl Workload for StatefulSets {
    type Root = StatefulSet;
    const NAME: &'static str = "statefulset-controller";

    fn reads() -> &'static [Kind] {
        &[Kind::Pod, Kind::PersistentVolumeClaim, Kind::ControllerRevision]
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        queue_owners::<StatefulSet, Pod>(change, view, queue, |set| Some(&set.spec.as_ref()?.selector));
        queue_owners::<StatefulSet, ControllerRevision>(change, view, queue, |set| Some(&set.spec.as_ref()?.selector));
        if change.of::<PersistentVolumeClaim>().is_some() {
            let sets = view.caches.stateful_sets.in_namespace(&change.key.namespace);
            for (key, set) in sets {
                if stateful_set::claims_of(set, []).contains(&change.key.name) {
                    queue.add(key.clone());
                }
            }
        }
    }

    fn decide(&mut self, set: &Arc<StatefulSet>, scene: Scene<'_>) -> plan::Plan {
        let namespace = meta::namespace(&set.metadata);
        let pods: Vec<Arc<Pod>> = scene.dependents(&set.metadata);
        let names: BTreeSet<String> = stateful_set::claims_of(set, pods.iter().map(AsRef::as_ref));
        let claims = names
            .iter()
            .filter_map(|name| scene.view.caches.claims.named(namespace, name));
        let view = stateful_set::View {
            set: Arc::clone(set),
            claims: claims.cloned().collect(),
            pods,
            revisions: scene.dependents(&set.metadata),
        };
        stateful_set::decide(&view, scene.view.now)
    }
}
