//! Pod garbage collection: ends pods that nobody else will.
//!
//! Pods of nodes that are gone (after a quarantine, and asked of the server), pods that were deleted
//! before they had a node, pods that end on nodes that are out of service, and finished pods beyond
//! a threshold. A pod that never finished is marked Failed first, so that its owner replaces it.

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
    /// How many finished pods may stay.
    pub terminated_threshold: usize,
    /// How long a node must be missing before its pods are ended.
    pub quarantine: Duration,
}

impl Default for Settings {
    /// kube-controller-manager's values: 12,500 pods and 40 s.
    fn default() -> Self {
        Self {
            terminated_threshold: 12_500,
            quarantine: Duration::from_secs(40),
        }
    }
}
