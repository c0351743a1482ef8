//! How the storage of a fake cloud is set.

use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use crate::csi::Settings;

/// Delays and limits of the cloud's storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CsiSettings {
    /// Whether the cloud's storage works for the cluster.
    pub enabled: bool,
    /// How long making a volume takes.
    pub provision_delay: GoDuration,
    /// How long removing a volume takes.
    pub delete_delay: GoDuration,
    /// How long attaching a volume to a VM takes.
    pub attach_delay: GoDuration,
    /// How long detaching a volume from a VM takes.
    pub detach_delay: GoDuration,
    /// How long a call that failed rests before it is made again.
    pub retry_delay: GoDuration,
    /// How many volumes a VM can have at once.
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
