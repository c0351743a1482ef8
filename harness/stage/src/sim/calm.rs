//! When nothing disturbs the world any more, so that regular signs of life need not be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver::faults::Faults;
use clock::{Clock, Pulses};

/// When nothing disturbs the world any more, and what is spared from then on.
#[derive(Clone)]
pub(super) struct CalmWatch {
    pub(super) clock: Clock,
    pub(super) faults: Faults,
    pub(super) pulses: [Option<Pulses>; 2],
    /// Whether no step that is left disturbs anything.
    pub(super) undisturbed: Arc<AtomicBool>,
}

impl CalmWatch {
    /// Looks until it is calm; never ends.
    pub(super) async fn watch(self) -> String {
        while !self.clock.has_stable_connections() && !self.has_come() {
            self.clock.sleep(CALM_PERIOD).await;
        }
        self.clock.mark_connections_stable();
        self.pulses.iter().flatten().for_each(Pulses::clear_explicit_periods);
        std::future::pending().await
    }

    fn has_come(&self) -> bool {
        self.undisturbed.load(Ordering::Relaxed) && self.faults.are_over(self.clock.now())
    }
}

/// How often a world that was disturbed is asked whether it is calm.
const CALM_PERIOD: Duration = Duration::from_mins(5);
