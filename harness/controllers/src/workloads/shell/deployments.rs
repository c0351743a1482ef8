//! The Deployment controller's watches and views.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use super::{Scene, Workload, pod_of, queue_owners};
use crate::workloads::{deployment, meta, plan, pods};
use crate::{Change, Kind, ObjectKey, Queue, View};

/// The Deployment controller.
#[derive(Debug, Default)]
pub(crate) struct Deployments;

impl Workload for Deployments {
    type Root = Deployment;
    const NAME: &'static str = "deployment-controller";

    fn reads() -> &'static [Kind] {
        &[Kind::ReplicaSet, Kind::Pod]
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        queue_owners::<Deployment, ReplicaSet>(change, view, queue, |deployment| {
            Some(&deployment.spec.as_ref()?.selector)
        });
        if let Some(key) = freed(change, view) {
            queue.add(key);
        }
    }

    fn decide(&mut self, deployment: &Arc<Deployment>, scene: Scene<'_>) -> plan::Plan {
        let caches = scene.view.caches;
        let sets: Vec<Arc<ReplicaSet>> = scene.dependents(&deployment.metadata);
        let owned_pods = sets
            .iter()
            .flat_map(|set| caches.pods.owned_by(meta::uid(&set.metadata)));
        let next = deployment::next_set_name(deployment);
        let taken = next.filter(|name| {
            let namespace = meta::namespace(&deployment.metadata);
            caches.replica_sets.named(namespace, name).is_some()
        });
        let view = deployment::View {
            deployment: Arc::clone(deployment),
            pods: owned_pods.cloned().collect(),
            sets,
            names: BTreeSet::from_iter(taken),
            failure: scene.failure,
        };
        deployment::decide(&view, scene.view.now)
    }
}

/// The deployment of a finished or deleted pod, for which a Recreate rollout may wait.
fn freed(change: &Change, view: View<'_>) -> Option<ObjectKey> {
    let transition = pod_of(change)?;
    let over = transition.after.is_none_or(|pod: &Pod| pods::is_terminal(pod));
    let set = runtime::ownership::controller(&transition.latest()?.metadata).filter(|set| set.kind == "ReplicaSet")?;
    let set = view.caches.replica_sets.named(&change.key.namespace, &set.name)?;
    let deployment = runtime::ownership::controller(&set.metadata).filter(|owner| owner.kind == "Deployment")?;
    over.then(|| ObjectKey::new(change.key.namespace.clone(), deployment.name.clone()))
}
