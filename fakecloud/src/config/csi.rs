//! The configuration of the cloud's storage.

use fakecloud_api::DurationText;
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::csi::Settings;

/// Delays and limits of the cloud's storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CsiSettings {
    /// Whether the cloud's storage serves the cluster.
    pub enabled: bool,
    /// Duration of creating a volume.
    #[schemars(with = "DurationText")]
    pub provision_delay: GoDuration,
    /// Duration of deleting a volume.
    #[schemars(with = "DurationText")]
    pub delete_delay: GoDuration,
    /// Duration of attaching a volume to a VM.
    #[schemars(with = "DurationText")]
    pub attach_delay: GoDuration,
    /// Duration of detaching a volume from a VM.
    #[schemars(with = "DurationText")]
    pub detach_delay: GoDuration,
    /// Pause before a failed call is retried.
    #[schemars(with = "DurationText")]
    pub retry_delay: GoDuration,
    /// Maximum number of volumes of a VM.
    pub volumes_per_node: u32,
}

impl Default for CsiSettings {
    fn default() -> Self {
        let plain = Settings::default();
        Self {
            enabled: true,
            provision_delay: GoDuration(plain.provision_delay),
            delete_delay: GoDuration(plain.delete_delay),
            attach_delay: GoDuration(plain.attach_delay),
            detach_delay: GoDuration(plain.detach_delay),
            retry_delay: GoDuration(plain.retry_delay),
            volumes_per_node: plain.volumes_per_node,
        }
    }
}

impl CsiSettings {
    pub(super) fn translate(&self) -> Settings {
        Settings {
            provision_delay: self.provision_delay.0,
            delete_delay: self.delete_delay.0,
            attach_delay: self.attach_delay.0,
            detach_delay: self.detach_delay.0,
            retry_delay: self.retry_delay.0,
            volumes_per_node: self.volumes_per_node,
        }
    }
}
