//! Time limits on a busy host.

use std::pin::pin;
use std::time::Duration;

use clock::{Clock, LostTime};

/// Waits for `work` for at most `limit`, extended by the time that the busy host takes from this process meanwhile.
/// `None` if it is not finished by then.
pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    extended(limit, &Clock::wall(), &LostTime::measured(), work).await
}

async fn extended<T>(limit: Duration, clock: &Clock, lost: &LostTime, work: impl Future<Output = T>) -> Option<T> {
    let started = clock.now();
    let mut work = pin!(work);
    let (mut wait, mut extension) = (limit, Duration::ZERO);
    loop {
        if let Ok(done) = tokio::time::timeout(wait, &mut work).await {
            return Some(done);
        }
        let total = lost.since(started);
        wait = total.saturating_sub(extension);
        if wait.is_zero() {
            return None;
        }
        extension = total;
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_lost(0, 10)]
    #[case::extended_once(3, 13)]
    #[tokio::test(start_paused = true)]
    async fn the_limit_is_extended_by_the_time_lost(#[case] lost: u64, #[case] expected: i64) {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let lost = LostTime::known(&[(clock.now() + Duration::from_secs(1), Duration::from_secs(lost))]);
        let limit = Duration::from_secs(10);
        assert_eq!(extended(limit, &clock, &lost, std::future::pending::<()>()).await, None);
        let passed = clock.now().duration_since(Timestamp::UNIX_EPOCH);
        assert_eq!(passed.as_secs(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn finished_work_is_returned() {
        assert_eq!(within(Duration::from_secs(10), async { 7 }).await, Some(7));
    }
}
