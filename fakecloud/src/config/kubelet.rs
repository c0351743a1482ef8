//! The configuration of simulated kubelets.

use std::time::Duration;

use fakecloud_api::DurationText;
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KubeletFaultRule;
use crate::kubelet::Settings;

/// The simulated kubelets' periods and delays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubeletSettings {
    /// Time from the VM's boot to the kubelet's first call.
    #[schemars(with = "DurationText")]
    pub start_delay: GoDuration,
    /// Period of Lease renewals.
    #[schemars(with = "DurationText")]
    pub lease_period: GoDuration,
    /// `spec.leaseDurationSeconds` of the Lease; rounded up to whole seconds.
    #[schemars(with = "DurationText")]
    pub lease_duration: GoDuration,
    /// Period of status writes of an unchanged Node.
    #[schemars(with = "DurationText")]
    pub status_period: GoDuration,
    /// Minimum time between two status writes that revert changes of other writers.
    #[schemars(with = "DurationText")]
    pub status_sync: GoDuration,
    /// Pause before a rejected kubelet tries to join again.
    #[schemars(with = "DurationText")]
    pub join_retry: GoDuration,
    /// Time from a pod's binding to Running.
    #[schemars(with = "DurationText")]
    pub pod_start_delay: GoDuration,
    /// How long a pod takes to terminate; limited by its grace period.
    #[schemars(with = "DurationText")]
    pub pod_stop_delay: GoDuration,
    /// Maximum number of concurrent API calls of all kubelets.
    pub concurrency: usize,
    /// Whether Nodes register without provider ID, addresses and topology, and with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`, for the cloud controller to complete them.
    pub external_cloud_provider: bool,
    /// Faults of kubelets, by machine and time.
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
