//! The DaemonSet controller's watches and views.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use runtime::backoff::Pause;

use super::{Scene, Workload, queue_owners};
use crate::workloads::daemon_set;
use crate::workloads::{meta, plan};
use crate::{Change, Kind, ObjectKey, Queue, View};

/// The DaemonSet controller.
#[derive(Debug, Default)]
pub(crate) struct DaemonSets {
    /// The replacement backoffs of nodes, by the uid of the DaemonSet.
    backoffs: BTreeMap<String, BTreeMap<String, Pause>>,
}

impl Workload for DaemonSets {
    type Root = DaemonSet;
    const NAME: &'static str = "daemonset-controller";

    fn reads() -> &'static [Kind] {
        &[Kind::Pod, Kind::Node, Kind::ControllerRevision]
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        queue_owners::<DaemonSet, Pod>(change, view, queue, |set| Some(&set.spec.as_ref()?.selector));
        queue_owners::<DaemonSet, ControllerRevision>(change, view, queue, |set| Some(&set.spec.as_ref()?.selector));
        if let Some(transition) = change.of::<Node>() {
            let relevant = |node: Option<&Node>| {
                node.map(|node| {
                    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
                    (node.metadata.labels.clone(), taints)
                })
            };
            if relevant(transition.before) != relevant(transition.after) {
                for (key, _) in view.caches.daemon_sets.iter() {
                    queue.add(key.clone());
                }
            }
        }
        if let Some(transition) = change.of::<DaemonSet>()
            && let (Some(gone), None) = (transition.before, transition.after)
        {
            self.backoffs.remove(meta::uid(&gone.metadata));
        }
    }

    fn decide(&mut self, set: &Arc<DaemonSet>, scene: Scene<'_>) -> plan::Plan {
        let uid = meta::uid(&set.metadata);
        let view = daemon_set::View {
            set: Arc::clone(set),
            pods: scene.dependents(&set.metadata),
            revisions: scene.dependents(&set.metadata),
            nodes: scene
                .view
                .caches
                .nodes
                .iter()
                .map(|(_, node)| Arc::clone(node))
                .collect(),
            backoffs: self.backoffs.get(uid).cloned().unwrap_or_default(),
        };
        let now = scene.view.now;
        let decision = daemon_set::decide(&view, now);
        for node in decision.failed_on {
            let backoffs = self.backoffs.entry(uid.to_owned()).or_default();
            // Removes entries of deleted nodes.
            backoffs.retain(|node, _| scene.view.caches.nodes.get(&ObjectKey::cluster(node)).is_some());
            let before = backoffs.get(&node).copied();
            backoffs.insert(node, daemon_set::backoff(before, now));
        }
        decision.plan
    }
}
