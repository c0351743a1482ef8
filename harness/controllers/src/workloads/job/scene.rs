//! The data of a decision about a Job.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::indexes;
use crate::workloads::meta::{self, Owner};
use crate::workloads::pods;

/// The finalizer that keeps a finished pod until it is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The data of one decision.
pub(super) struct Scene<'a> {
    pub spec: &'a JobSpec,
    pub status: JobStatus,
    pub owner: Owner,
    pub pods: Vec<Arc<Pod>>,
    pub now: Timestamp,
}

impl Scene<'_> {
    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether a pod is replaced only after it has failed, not when it is terminating.
    pub fn replaces_failed_only(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// The pending and running pods.
    pub fn active(&self) -> Vec<&Arc<Pod>> {
        self.pods.iter().filter(|pod| pods::is_active(pod)).collect()
    }

    /// The number of terminating pods.
    pub fn terminating(&self) -> usize {
        self.pods.iter().filter(|pod| pods::is_terminating(pod)).count()
    }

    pub fn has_failed(&self, pod: &Pod) -> bool {
        match pods::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => meta::is_deleting(&pod.metadata) && !self.replaces_failed_only(),
        }
    }

    /// The succeeded indexes, from the status and from uncounted pods.
    pub fn succeeded_indexes(&self) -> BTreeSet<i32> {
        let completions = self.spec.completions.unwrap_or_default();
        let written = self.status.completed_indexes.as_deref().unwrap_or_default();
        let mut succeeded = indexes::parse(written, completions);
        let ended = self
            .pods
            .iter()
            .filter(|pod| pods::phase(pod) == "Succeeded" && is_tracked(pod));
        succeeded.extend(ended.filter_map(|pod| indexes::index_of(pod, completions)));
        succeeded
    }
}

/// Whether a pod is not counted yet.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == TRACKING)
}
