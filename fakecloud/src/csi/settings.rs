//! Settings of a fake cloud's storage as plain values.

use std::time::Duration;

/// Delays and limits of the cloud's storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Duration of creating a volume.
    pub provision_delay: Duration,
    /// Duration of deleting a volume.
    pub delete_delay: Duration,
    /// Duration of attaching a volume to a VM.
    pub attach_delay: Duration,
    /// Duration of detaching a volume from a VM.
    pub detach_delay: Duration,
    /// Pause before a failed call is retried.
    pub retry_delay: Duration,
    /// Maximum number of volumes of a VM.
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
