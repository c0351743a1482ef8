//! How long to wait before work that did not succeed is tried again. Conflicts and failures wait differently.

use std::time::Duration;

use mcm_core::machine::Retry;
use runtime::backoff::{Failures, doubled};

/// The longest wait, in short retry periods: what was mended is noticed within a minute.
const LONGEST: u32 = 8;

/// Why work is to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Somebody else wrote meanwhile: at first it is decided again at once.
    Conflict,
    /// A request failed.
    Failure,
}

impl Trouble {
    /// A write's that failed.
    pub(crate) fn of(conflict: bool) -> Self {
        if conflict { Self::Conflict } else { Self::Failure }
    }
}

/// How often each key failed in a row.
#[derive(Debug)]
pub(crate) struct Backoff<K>(Failures<K>);

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self(Failures::default())
    }
}

impl<K: Ord> Backoff<K> {
    /// The wait after the work on that key failed once more.
    pub(crate) fn failed(&mut self, key: K, trouble: Trouble, retry: &Retry) -> Duration {
        let (first, doublings) = match (trouble, self.0.add(key)) {
            (Trouble::Conflict, 0) => return Duration::ZERO,
            (Trouble::Conflict, before) => (retry.conflict, before - 1),
            (Trouble::Failure, before) => (retry.short, before),
        };
        doubled(first, doublings, retry.short * LONGEST)
    }

    /// How often the work on that key failed in a row.
    pub(crate) fn times(&self, key: &K) -> u32 {
        self.0.times(key)
    }

    /// It succeeded.
    pub(crate) fn succeeded(&mut self, key: &K) {
        self.0.clear(key);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::failures(Trouble::Failure, &[5_000, 10_000, 20_000, 40_000, 40_000])]
    #[case::conflicts(Trouble::Conflict, &[0, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 40_000, 40_000])]
    fn each_wait_is_longer_than_the_one_before_up_to_a_limit(#[case] trouble: Trouble, #[case] waits: &[u64]) {
        let mut backoff = Backoff::default();
        for wait in waits {
            let waited = backoff.failed("a", trouble, &Retry::default());
            assert_eq!(waited, Duration::from_millis(*wait));
        }
    }

    #[test]
    fn the_wait_stays_at_its_limit_however_often_it_fails() {
        let mut backoff = Backoff::default();
        let waits = (0..100).map(|_| backoff.failed("a", Trouble::Failure, &Retry::default()));
        assert_eq!(waits.last(), Some(Duration::from_secs(40)));
    }

    #[test]
    fn a_success_and_other_keys_begin_anew() {
        let mut backoff = Backoff::default();
        let failed = |backoff: &mut Backoff<&str>, key| backoff.failed(key, Trouble::Failure, &Retry::default());
        failed(&mut backoff, "a");
        failed(&mut backoff, "a");
        assert_eq!(failed(&mut backoff, "b"), Duration::from_secs(5));
        backoff.succeeded(&"a");
        assert_eq!(failed(&mut backoff, "a"), Duration::from_secs(5));
    }
}
