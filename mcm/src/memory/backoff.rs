//! The backoff of failed work. Conflicts and failures have different waits.

use std::time::Duration;

use mcm_core::machine::Retry;
use runtime::backoff::{Failures, doubled};

/// The longest wait, in short retry periods: a fix takes effect within a minute.
const LONGEST: u32 = 8;

/// Why work must be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryCause {
    /// The object changed meanwhile: the first retry follows at once.
    Conflict,
    /// A request failed.
    Failure,
}

impl RetryCause {
    /// The cause for a failed write.
    pub(crate) fn of(conflict: bool) -> Self {
        if conflict { Self::Conflict } else { Self::Failure }
    }
}

/// Counts consecutive failures by key.
#[derive(Debug)]
pub(crate) struct Backoff<K>(Failures<K>);

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self(Failures::default())
    }
}

impl<K: Ord> Backoff<K> {
    /// Counts a failure of the key; returns the wait before the retry.
    pub(crate) fn failed(&mut self, key: K, cause: RetryCause, retry: &Retry) -> Duration {
        let (first, doublings) = match (cause, self.0.add(key)) {
            (RetryCause::Conflict, 0) => return Duration::ZERO,
            (RetryCause::Conflict, before) => (retry.conflict, before - 1),
            (RetryCause::Failure, before) => (retry.short, before),
        };
        doubled(first, doublings, retry.short * LONGEST)
    }

    /// The number of consecutive failures of the key.
    pub(crate) fn times(&self, key: &K) -> u32 {
        self.0.times(key)
    }

    /// Resets the key after a success.
    pub(crate) fn succeeded(&mut self, key: &K) {
        self.0.clear(key);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::failures(RetryCause::Failure, &[5_000, 10_000, 20_000, 40_000, 40_000])]
    #[case::conflicts(RetryCause::Conflict, &[0, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 40_000, 40_000])]
    fn waits_grow_up_to_a_limit(#[case] cause: RetryCause, #[case] waits: &[u64]) {
        let mut backoff = Backoff::default();
        for wait in waits {
            let waited = backoff.failed("a", cause, &Retry::default());
            assert_eq!(waited, Duration::from_millis(*wait));
        }
    }

    #[test]
    fn the_wait_stays_at_its_limit_after_many_failures() {
        let mut backoff = Backoff::default();
        let waits = (0..100).map(|_| backoff.failed("a", RetryCause::Failure, &Retry::default()));
        assert_eq!(waits.last(), Some(Duration::from_secs(40)));
    }

    #[test]
    fn a_success_resets_the_key_and_keys_are_independent() {
        let mut backoff = Backoff::default();
        let failed = |backoff: &mut Backoff<&str>, key| backoff.failed(key, RetryCause::Failure, &Retry::default());
        failed(&mut backoff, "a");
        failed(&mut backoff, "a");
        assert_eq!(failed(&mut backoff, "b"), Duration::from_secs(5));
        backoff.succeeded(&"a");
        assert_eq!(failed(&mut backoff, "a"), Duration::from_secs(5));
    }
}
