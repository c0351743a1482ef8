//! How simulated kubelets are set, as plain values.

use std::time::Duration;

/// The simulated kubelets' periods and delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// From the VM's boot to the kubelet's first call.
    pub(crate) start_delay: Duration,
    /// How often the Lease is renewed.
    pub(crate) lease_period: Duration,
    /// `spec.leaseDurationSeconds` of the Lease; rounded up to whole seconds.
    pub(crate) lease_duration: Duration,
    /// How often the Node's status is written when nothing changes.
    pub(crate) status_period: Duration,
    /// The shortest time between two status writes that mend a change made by others.
    pub(crate) status_sync: Duration,
    /// How long a kubelet waits after it was refused, before it tries to join again.
    pub(crate) join_retry: Duration,
    /// From a pod's binding to Running.
    pub(crate) pod_start_delay: Duration,
    /// How long a pod takes to end; never longer than its grace period.
    pub(crate) pod_stop_delay: Duration,
    /// How many API calls are under way at once, over all kubelets.
    pub(crate) concurrency: usize,
    /// Whether Nodes register without provider id, addresses and topology, and with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`, for the cloud controller to complete them.
    pub(crate) external_cloud_provider: bool,
}
