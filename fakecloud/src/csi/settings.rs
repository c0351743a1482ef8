//! How the storage of a fake cloud is set, as plain values.

use std::time::Duration;

/// Delays and limits of the cloud's storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long making a volume takes.
    pub provision_delay: Duration,
    /// How long removing a volume takes.
    pub delete_delay: Duration,
    /// How long attaching a volume to a VM takes.
    pub attach_delay: Duration,
    /// How long detaching a volume from a VM takes.
    pub detach_delay: Duration,
    /// How long a call that failed rests before it is made again.
    pub retry_delay: Duration,
    /// How many volumes a VM can have at once.
    pub volumes_per_node: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            provision_delay: seconds(1),
            delete_delay: seconds(1),
            attach_delay: seconds(2),
            detach_delay: seconds(2),
            retry_delay: seconds(2),
            volumes_per_node: 25,
        }
    }
}
