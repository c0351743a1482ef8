//! Wall and virtual time behind one type.
#![allow(clippy::disallowed_methods)] // one of the two files that may read the operating system's clock

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time and sleeps.
///
/// Sleeping always goes through Tokio's timer. On a paused runtime that timer jumps to the next
/// deadline once every task waits, and a [`Clock::simulated`] moves with it, so that both advance
/// together and 72 hours pass in seconds.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Wall,
    Virtual { epoch: Timestamp, start: Instant },
}

impl Clock {
    /// The operating system's clock.
    pub fn wall() -> Self {
        Self(Kind::Wall)
    }

    /// A clock that reads `epoch` now and moves with the current Tokio runtime's (paused) time.
    ///
    /// Must be called from within that runtime.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self(Kind::Virtual {
            epoch,
            start: Instant::now(),
        })
    }

    /// Whether this clock is virtual.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, Kind::Virtual { .. })
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
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
