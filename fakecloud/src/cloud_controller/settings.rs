//! How the cloud controller is set, as plain values.

use std::time::Duration;

/// What a cloud controller manager does for the Nodes of this cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How long after a VM's end, or its stop, its Node is looked at.
    pub(crate) monitor_period: Duration,
    /// Whether the Node of a VM that is gone stays while its Ready condition is True, as upstream
    /// has it.
    pub(crate) wait_for_not_ready: bool,
}
