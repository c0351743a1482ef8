//! Translates a configuration into the settings of the cloud's parts.

use super::{BootDelay, Config, KubeletFaultRule, RateLimit};
use crate::{cloud_controller, csi, kubelet, model};

/// The settings of all parts.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) cloud: model::Settings,
    pub(crate) kubelet: kubelet::Settings,
    /// `None`: the cloud's storage does not serve the cluster.
    pub(crate) csi: Option<csi::Settings>,
    /// `None`: the cloud controller does not run.
    pub(crate) cloud_controller: Option<cloud_controller::Settings>,
}

impl Config {
    /// The settings of a configuration, which [`Config::check`] must have accepted.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            cloud: self.cloud(),
            kubelet: self.kubelet.translate(),
            csi: self.csi.enabled.then(|| self.csi.translate()),
            cloud_controller: self.cloud_controller.enabled.then(|| self.cloud_controller.translate()),
        }
    }

    fn cloud(&self) -> model::Settings {
        let machine_types = self.machine_types.iter();
        model::Settings {
            region: self.region.clone(),
            zones: self.zones.clone(),
            regions: self.regions.clone(),
            images: self.images.clone(),
            required_tags: self.required_tags.clone(),
            limits: self.limits.translate(),
            volumes_per_vm: self.csi.volumes_per_node as usize,
            quotas: self.quotas.clone(),
            capacity: self.capacity.clone(),
            rate_limits: self.rate_limits.iter().map(RateLimit::translate).collect(),
            api_tokens: self.api_tokens.clone(),
            machine_types: machine_types.map(|(name, of)| (name.clone(), of.translate())).collect(),
            boot_delay: self.boot_delay,
            boot_delays: self.boot_delays.iter().map(BootDelay::translate).collect(),
            termination_delay: self.termination_delay.0,
            duplicate_creates: self.duplicate_creates,
            require_initialize: self.require_initialize,
            call_latency: self.call_latency.0,
            kubelet_faults: self
                .kubelet
                .faults
                .iter()
                .filter_map(KubeletFaultRule::translate)
                .collect(),
            faults: self.faults.clone(),
        }
    }
}
