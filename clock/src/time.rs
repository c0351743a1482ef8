//! Wall and virtual time behind one type.
#![allow(clippy::disallowed_methods)] // one of the two files that may read the operating system's clock

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time and sleeps.
///
/// Sleeping always goes through Tokio's timer. On a paused runtime that timer jumps to the next
/// deadline once every task waits, and a [`Clock::simulated`] moves with it, so that both advance
/// together and 72 hours pass in seconds.
#[derive(Clone, Debug)]
pub struct Clock {
    kind: Kind,
    /// Clones share it.
    calm: Arc<AtomicBool>,
}

/// For how many seconds a client requests a watch at a time: kube's default.
const WATCH_SECONDS: u32 = 290;
/// The same in a calm world.
const CALM_WATCH_SECONDS: u32 = 60 * 60;

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
            calm: Arc::default(),
        }
    }

    /// A clock that reads `epoch` now and moves with the current Tokio runtime's (paused) time.
    ///
    /// Must be called from within that runtime.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self {
            kind: Kind::Virtual {
                epoch,
                start: Instant::now(),
            },
            calm: Arc::default(),
        }
    }

    /// From now on, in the simulated world of this clock and its clones, nothing disturbs a connection to an API server.
    /// Watching anew, or asking whether a server answers, shows nothing there and costs computing time.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// Whether nothing disturbs a connection to an API server; never known on the wall clock.
    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// For how many seconds a client requests a watch at a time; a watch that is silent for longer counts as dead.
    pub fn watch_seconds(&self) -> u32 {
        if self.is_calm() {
            CALM_WATCH_SECONDS
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

    /// Sleeps until `deadline`; returns at once when it has passed.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        self.sleep(self.until(deadline)).await;
    }

    /// How long it is until `deadline`; zero when it has passed.
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
    async fn sleeping_until_the_past_returns_at_once() {
        let epoch = Timestamp::from_second(1_800_000_000).unwrap();
        let clock = Clock::simulated(epoch);
        clock.sleep_until(epoch - SignedDuration::from_hours(1)).await;
        assert_eq!(clock.now(), epoch);
    }
}
