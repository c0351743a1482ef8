//! How pods are removed from a node whose VM keeps running, when an eviction no longer is an option.
//!
//! A kubelet that answers ends the containers within the pod's own grace period. One that does not answer confirms
//! nothing: there, a pod that must not run twice is evicted and stays Terminating until the kubelet confirms its end, so that
//! its StatefulSet starts no second one and no other VM gets its volumes. If the VM is known to be stopped, nothing runs on
//! it, and all pods may be deleted.

use k8s_openapi::api::core::v1::Node;

use super::super::pass::Pass;
use super::super::{Action, Pod};
use super::is_dead;

/// The taint of a Node whose VM the cloud reports as stopped.
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// The taint with which a user declares that nothing runs on the Node.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The pods of a node, by how they are removed.
pub(in super::super) struct Removal {
    /// Whether the VM is known to be stopped.
    pub stopped: bool,
    /// The pods that stay in the API until the kubelet confirms their end.
    pub kept: Vec<Pod>,
    /// The pods that leave the API.
    pub removed: Vec<Pod>,
    /// Whether the kubelet still ends containers.
    answers: bool,
}

impl Removal {
    pub fn of(pass: &Pass, pods: Vec<Pod>) -> Self {
        let answers = !is_dead(pass);
        let stopped = !answers && pass.view.node.present().is_some_and(is_stopped);
        let (kept, removed) = pods
            .into_iter()
            .partition(|pod| !answers && !stopped && pod.is_unique());
        Self {
            stopped,
            kept,
            removed,
            answers,
        }
    }

    /// The actions that remove the pods. A pod that is being deleted with its own grace period needs none.
    pub fn actions(self) -> Vec<Action> {
        let grace = (!self.answers).then_some(0);
        let removed = self.removed.iter().filter(|pod| grace.is_some() || pod.ends.is_none());
        let kept = self.kept.iter().filter(|pod| pod.ends.is_none());
        removed
            .map(|pod| pod.deletion(grace))
            .chain(kept.map(Pod::eviction))
            .collect()
    }
}

/// Whether the cloud or a user has tainted the Node because its VM does not run.
fn is_stopped(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .into_iter()
        .any(|taint| [SHUTDOWN, OUT_OF_SERVICE].contains(&taint.key.as_str()))
}
