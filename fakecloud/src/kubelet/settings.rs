//! Settings of simulated kubelets as plain values.

use std::time::Duration;

/// Periods and delays of simulated kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Time from the VM's boot to the kubelet's first call.
    pub(crate) start_delay: Duration,
    /// Period of Lease renewals.
    pub(crate) lease_period: Duration,
    /// `spec.leaseDurationSeconds` of the Lease; rounded up to whole seconds.
    pub(crate) lease_duration: Duration,
    /// Period of status writes of an unchanged Node.
    pub(crate) status_period: Duration,
    /// Minimum time between two status writes that revert changes of other writers.
    pub(crate) status_sync: Duration,
    /// Pause before a rejected kubelet tries to join again.
    pub(crate) join_retry: Duration,
    /// Time from a pod's binding to Running.
    pub(crate) pod_start_delay: Duration,
    /// How long a pod takes to terminate; limited by its grace period.
    pub(crate) pod_stop_delay: Duration,
    /// Maximum number of concurrent API calls of all kubelets.
    pub(crate) concurrency: usize,
    /// Whether Nodes register without provider ID, addresses and topology, and with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`, for the cloud controller.
    pub(crate) external_cloud_provider: bool,
}
