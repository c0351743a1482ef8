//! Detects when nothing disturbs the connections of the world any more, so that pulses may replace Lease renewals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver::faults::Faults;
use clock::{Clock, Pulses};

/// Watches for stable connections, and then enables pulses and stable watches.
#[derive(Clone)]
pub(super) struct StabilityWatch {
    pub(super) clock: Clock,
    pub(super) faults: Faults,
    pub(super) pulses: [Option<Pulses>; 2],
    /// Whether no remaining step disturbs a connection.
    pub(super) undisturbed: Arc<AtomicBool>,
}

impl StabilityWatch {
    /// Waits for stable connections. Never returns.
    pub(super) async fn watch(self) -> String {
        while !self.clock.has_stable_connections() && !self.is_undisturbed() {
            self.clock.sleep(CHECK_PERIOD).await;
        }
        self.clock.mark_connections_stable();
        self.pulses.iter().flatten().for_each(Pulses::clear_explicit_periods);
        std::future::pending().await
    }

    fn is_undisturbed(&self) -> bool {
        self.undisturbed.load(Ordering::Relaxed) && self.faults.are_over(self.clock.now())
    }
}

/// The interval of checks of a disturbed world.
const CHECK_PERIOD: Duration = Duration::from_mins(5);
