//! How simulated kubelets are set.

use std::time::Duration;

use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use super::KubeletFaultRule;
use crate::kubelet::Settings;

/// The simulated kubelets' periods and delays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubeletSettings {
    /// From the VM's boot to the kubelet's first call.
    pub start_delay: GoDuration,
    /// How often the Lease is renewed.
    pub lease_period: GoDuration,
    /// `spec.leaseDurationSeconds` of the Lease; rounded up to whole seconds.
    pub lease_duration: GoDuration,
    /// How often the Node's status is written when nothing changes.
    pub status_period: GoDuration,
    /// The shortest time between two status writes that mend a change made by others.
    pub status_sync: GoDuration,
    /// How long a kubelet waits after it was refused, before it tries to join again.
    pub join_retry: GoDuration,
    /// From a pod's binding to Running.
    pub pod_start_delay: GoDuration,
    /// How long a pod takes to end; never longer than its grace period.
    pub pod_stop_delay: GoDuration,
    /// How many API calls are under way at once, over all kubelets.
    pub concurrency: usize,
    /// Whether Nodes register without provider id, addresses and topology, and with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`, for the cloud controller to complete them.
    pub external_cloud_provider: bool,
    /// What is wrong with kubelets, by machine and time.
    pub faults: Vec<KubeletFaultRule>,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        let seconds = |seconds| GoDuration(Duration::from_secs(seconds));
        Self {
            start_delay: seconds(1),
            lease_period: seconds(10),
            lease_duration: seconds(40),
            status_period: seconds(300),
            status_sync: seconds(10),
            join_retry: seconds(10),
            pod_start_delay: seconds(1),
            pod_stop_delay: seconds(1),
            concurrency: 64,
            external_cloud_provider: false,
            faults: Vec::new(),
        }
    }
}

impl KubeletSettings {
    pub(super) fn translate(&self) -> Settings {
        Settings {
            start_delay: self.start_delay.0,
            lease_period: self.lease_period.0,
            lease_duration: self.lease_duration.0,
            status_period: self.status_period.0,
            status_sync: self.status_sync.0,
            join_retry: self.join_retry.0,
            pod_start_delay: self.pod_start_delay.0,
            pod_stop_delay: self.pod_stop_delay.0,
            concurrency: self.concurrency,
            external_cloud_provider: self.external_cloud_provider,
        }
    }
}
