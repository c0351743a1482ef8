//! Wall and virtual time behind one type.
#![allow(clippy::disallowed_methods)] // one of the two files that may read the operating system's clock

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Reads the time and sleeps.
///
/// All sleeps use Tokio's timer. On a paused runtime that timer jumps to the next deadline when every task waits, and
/// a [`Clock::simulated`] follows it, so that 72 hours pass in seconds.
#[derive(Clone, Debug)]
pub struct Clock {
    kind: Kind,
    /// Shared by all clones.
    stable_connections: Arc<AtomicBool>,
}

/// The duration of one watch request in seconds: kube's default.
const WATCH_SECONDS: u32 = 290;
/// The same while connections are stable.
const STABLE_WATCH_SECONDS: u32 = 60 * 60;

#[derive(Clone, Debug)]
enum Kind {
    Wall,
    Virtual { epoch: Timestamp, start: Instant },
}

impl Clock {
    /// The operating system's clock.
    pub fn wall() -> Self {
        Self {
            kind: Kind::Wall,
            stable_connections: Arc::default(),
        }
    }

    /// A clock that starts at `epoch` and follows the (paused) time of the current Tokio runtime.
    ///
    /// Must be called within that runtime.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self {
            kind: Kind::Virtual {
                epoch,
                start: Instant::now(),
            },
            stable_connections: Arc::default(),
        }
    }

    /// Declares that nothing will disturb a connection to an API server any more in the simulated world of this clock
    /// and its clones. Clients then skip relists and health probes, which would cost computing time without a result.
    pub fn mark_connections_stable(&self) {
        self.stable_connections.store(true, Ordering::Relaxed);
    }

    /// Whether nothing can disturb a connection to an API server; always false for the wall clock.
    pub fn has_stable_connections(&self) -> bool {
        self.stable_connections.load(Ordering::Relaxed)
    }

    /// The duration of one watch request in seconds. A client considers a watch dead if it is silent for longer.
    pub fn watch_seconds(&self) -> u32 {
        if self.has_stable_connections() {
            STABLE_WATCH_SECONDS
        } else {
            WATCH_SECONDS
        }
    }

    /// Whether this clock is virtual.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Virtual { .. })
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.kind {
            Kind::Wall => Timestamp::now(),
            Kind::Virtual { epoch, start } => {
                let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
                epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Sleeps for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Sleeps until `deadline`; returns immediately if it has passed.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        self.sleep(self.until(deadline)).await;
    }

    /// The time until `deadline`; zero if it has passed.
    pub fn until(&self, deadline: Timestamp) -> Duration {
        Duration::try_from(deadline.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_with_the_paused_runtime() {
        let epoch = Timestamp::from_second(1_800_000_000).unwrap();
        let clock = Clock::simulated(epoch);
        assert_eq!(clock.now(), epoch);
        clock.sleep(Duration::from_secs(72 * 3600)).await;
        assert_eq!(clock.now(), epoch + SignedDuration::from_hours(72));
    }

    #[tokio::test(start_paused = true)]
    async fn sleeping_until_the_past_returns_immediately() {
        let epoch = Timestamp::from_second(1_800_000_000).unwrap();
        let clock = Clock::simulated(epoch);
        clock.sleep_until(epoch - SignedDuration::from_hours(1)).await;
        assert_eq!(clock.now(), epoch);
    }
}
