//! The inputs of a decision about a DaemonSet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use runtime::backoff::{Limits, Pause};

use super::eligible::Eligibility;
use super::pod::HASH;
use crate::workloads::{meta, pods};

/// The backoff before a failed pod on a node is replaced.
const BACKOFF: Limits = Limits {
    first: Duration::from_secs(1),
    longest: Duration::from_mins(15),
    forgotten_after: Duration::from_mins(30),
};

/// The observed state for a decision about a DaemonSet.
#[derive(Clone, Debug)]
pub struct View {
    /// The DaemonSet.
    pub set: Arc<DaemonSet>,
    /// The pods that it controls, and the orphaned pods of its namespace.
    pub pods: Vec<Arc<Pod>>,
    /// The revisions that it controls, and the orphaned ones of its namespace.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// All nodes.
    pub nodes: Vec<Arc<Node>>,
    /// The replacement backoff of each node.
    pub backoffs: BTreeMap<String, Pause>,
}

/// The backoff of a node after another replacement at `now`.
pub fn backoff(before: Option<Pause>, now: Timestamp) -> Pause {
    Pause::after(before, now, now, &BACKOFF)
}

/// The data of one decision.
pub(super) struct Scene<'a> {
    pub set: &'a DaemonSet,
    pub spec: &'a DaemonSetSpec,
    /// The spec of its pods.
    pub pod_spec: PodSpec,
    /// The hash of its template.
    pub hash: String,
    pub nodes: BTreeMap<String, Eligibility>,
    /// Its pods, by the node that they run on or target.
    pub pods: BTreeMap<String, Vec<Arc<Pod>>>,
    pub backoffs: &'a BTreeMap<String, Pause>,
    pub now: Timestamp,
}

impl Scene<'_> {
    /// The pods of a node.
    pub fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a pod has the current template.
    pub fn is_current(&self, pod: &Pod) -> bool {
        meta::label(&pod.metadata, HASH) == Some(&self.hash)
    }

    pub fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.spec.min_ready_seconds.unwrap_or_default(), self.now)
    }

    pub fn namespace(&self) -> &str {
        meta::namespace(&self.set.metadata)
    }
}

/// The planned creations and deletions.
#[derive(Default)]
pub(super) struct Changes {
    pub create_on: Vec<String>,
    pub delete: Vec<Arc<Pod>>,
}

/// Sort key: scheduled before unscheduled, then older before younger.
pub(super) fn oldest_first(pod: &Pod) -> (bool, Timestamp, String) {
    let name = meta::name(&pod.metadata).to_owned();
    (pods::node(pod).is_none(), meta::created(&pod.metadata), name)
}
