//! How the storage of a fake cloud is set.

use std::time::Duration;

use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

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
        let seconds = |seconds| GoDuration(Duration::from_secs(seconds));
        Self {
            enabled: true,
            provision_delay: seconds(1),
            delete_delay: seconds(1),
            attach_delay: seconds(2),
            detach_delay: seconds(2),
            retry_delay: seconds(2),
            volumes_per_node: 25,
        }
    }
}
