//! The activity of this process, for probes and one metric.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The activity of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Clusters or driver have not responded yet, or the Lease cannot be read.
    Starting,
    /// Another process leads; this process takes over when that one ends.
    Standby,
    /// It leads and is filling its caches.
    Syncing,
    /// It leads and works.
    Working,
    /// It is stopping.
    Stopping,
}

impl Activity {
    const ALL: [Self; 5] = [
        Self::Starting,
        Self::Standby,
        Self::Syncing,
        Self::Working,
        Self::Stopping,
    ];

    /// Whether a rollout of `mcm` may continue with the next replica. A standby counts as ready, because the
    /// old leader is stopped only after the new process is ready.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Standby | Self::Working)
    }

    /// Whether it holds the Lease, or needs none.
    pub fn is_leading(self) -> bool {
        matches!(self, Self::Syncing | Self::Working)
    }

    /// A human-readable description.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Starting => "starting: the clusters, the Lease or the driver have not answered yet",
            Self::Standby => "standby: another process leads",
            Self::Syncing => "leading: the caches are being filled",
            Self::Working => "leading: working",
            Self::Stopping => "stopping",
        }
    }
}

/// The activity of one process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    /// The activity now.
    pub fn get(&self) -> Activity {
        let number = self.0.load(Ordering::Relaxed);
        Activity::ALL
            .into_iter()
            .find(|activity| *activity as u8 == number)
            .unwrap_or(Activity::Starting)
    }

    pub(crate) fn set(&self, activity: Activity) {
        self.0.store(activity as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_can_be_set_and_a_new_process_is_starting() {
        let readiness = Readiness::default();
        assert_eq!(readiness.get(), Activity::Starting);
        for activity in Activity::ALL {
            readiness.set(activity);
            assert_eq!(readiness.get(), activity);
        }
    }

    #[test]
    fn a_standby_is_ready_so_that_a_rolling_update_continues() {
        let ready: Vec<_> = Activity::ALL
            .into_iter()
            .filter(|activity| activity.is_ready())
            .collect();
        assert_eq!(ready, [Activity::Standby, Activity::Working]);
    }
}
