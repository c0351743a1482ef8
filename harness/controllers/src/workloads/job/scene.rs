//! What a decision about a Job looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::indexes;
use crate::workloads::meta::{self, Owner};
use crate::workloads::pods;

/// Holds an ended pod until it has been counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Everything that one decision looks at.
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

    /// Whether a pod is replaced only once it has failed, and not already while it terminates.
    pub fn replaces_failed_only(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// The pods that run or may come to run.
    pub fn active(&self) -> Vec<&Arc<Pod>> {
        self.pods.iter().filter(|pod| pods::is_active(pod)).collect()
    }

    /// How many pods are on their way out.
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

    /// The indexes that have succeeded, by the status and by pods that it does not count yet.
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

/// Whether a pod has not been counted yet.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == TRACKING)
}
