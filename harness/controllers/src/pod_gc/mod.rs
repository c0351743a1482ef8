//! Pod garbage collection: deletes pods that no other controller or kubelet deletes.
//!
//! These are: pods of missing nodes (after a quarantine and a check on the API server), pods that were deleted
//! before they were scheduled, terminating pods on nodes that are out of service, and finished pods beyond a
//! threshold. An unfinished pod is marked Failed first, so that its owner replaces it.

mod controller;
mod decide;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use controller::PodGc;
pub use decide::Reason;

/// The limits of pod garbage collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The maximum number of finished pods.
    pub terminated_threshold: usize,
    /// How long a node must be missing before its pods are deleted.
    pub quarantine: Duration,
}

impl Default for Settings {
    /// kube-controller-manager's defaults: 12,500 pods and 40 s.
    fn default() -> Self {
        Self {
            terminated_threshold: 12_500,
            quarantine: Duration::from_secs(40),
        }
    }
}
