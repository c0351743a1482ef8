//! Settings of the cloud controller as plain values.

use std::time::Duration;

/// Settings of a cloud controller manager for the Nodes of this cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Time from a VM's end or stop until its Node is checked.
    pub(crate) monitor_period: Duration,
    /// Whether the Node of a terminated VM stays while its Ready condition is True, as in upstream.
    pub(crate) wait_for_not_ready: bool,
}
