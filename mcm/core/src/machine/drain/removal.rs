//! How pods are removed from a node whose VM keeps running, when an eviction no longer is an option.
//!
//! A kubelet that answers ends the containers within the pod's own grace period. One that does not answer confirms
//! nothing: there, a pod that must not run twice is evicted and stays Terminating until the kubelet confirms its end, so that
//! its StatefulSet starts no second one and no other VM gets its volumes. If the VM is known to be stopped, nothing runs on
//! it, and all pods may be deleted.

use super::super::pass::Pass;
use super::super::{Action, Pod};
use super::{concerned, is_dead};

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
        let stopped = !answers && is_tainted_as_stopped(pass);
        let (kept, removed) = pods
            .into_iter()
            .partition(|pod| !answers && !stopped && pod.is_unique() && !defect!(UnansweredPodsForceDeleted));
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
        // An eviction without a grace period would remove the pod from the API at once.
        let kept = self
            .kept
            .iter()
            .filter(|pod| pod.ends.is_none() && !pod.grace.is_zero());
        removed
            .map(|pod| pod.deletion(grace))
            .chain(kept.map(Pod::eviction))
            .collect()
    }
}

/// How a pod is removed in a forced drain, before the deletion of the VM; `None`: it is being deleted, and stays until the VM
/// is gone. If the cloud's deletion fails, the VM may run for hours.
pub(super) fn before_vm_deletion(pass: &Pass, pod: &Pod) -> Option<Action> {
    if !pod.is_unique() || is_tainted_as_stopped(pass) || defect!(ForcedDrainRemovesUniquePods) {
        return Some(pod.deletion(Some(0)));
    }
    let grace = pod.grace.is_zero().then_some(1);
    pod.ends.is_none().then(|| pod.deletion(grace))
}

/// The pods that must not run twice and are still on the Node.
pub(in super::super) fn unique_pods(pass: &Pass) -> Vec<Pod> {
    let pods = concerned(pass.view.pods.as_deref().unwrap_or_default());
    pods.into_iter().filter(Pod::is_unique).collect()
}

/// Whether the cloud or a user has tainted the Node because its VM does not run.
pub(in super::super) fn is_tainted_as_stopped(pass: &Pass) -> bool {
    let spec = pass.view.node.present().and_then(|node| node.spec.as_ref());
    let mut taints = spec.into_iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| [SHUTDOWN, OUT_OF_SERVICE].contains(&taint.key.as_str()))
}
