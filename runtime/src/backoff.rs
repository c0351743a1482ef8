//! The wait before a retry, which doubles while failures continue.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// `first`, doubled `times` times, but at most `longest`.
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// Counts consecutive failures by key.
#[derive(Clone, Debug)]
pub struct Failures<K>(BTreeMap<K, u32>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Failures<K> {
    /// Counts a failure of the key; returns the number of consecutive failures before it.
    pub fn add(&mut self, key: K) -> u32 {
        let times = self.0.entry(key).or_default();
        let before = *times;
        *times = times.saturating_add(1);
        before
    }

    /// The number of consecutive failures of the key.
    pub fn times(&self, key: &K) -> u32 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Resets the key after a success, or when it is no longer processed.
    pub fn clear(&mut self, key: &K) {
        self.0.remove(key);
    }
}

/// The limits of a backoff without successes: time without a failure resets it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// After this time without a failure the wait is reset to the first one.
    pub forgotten_after: Duration,
}

/// A wait with its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The duration of the wait.
    pub wait: Duration,
    /// When it began.
    pub since: Timestamp,
}

impl Pause {
    /// The pause that begins at `now` after a failure at `failed`, given the previous pause.
    pub fn after(before: Option<Self>, failed: Timestamp, now: Timestamp, limits: &Limits) -> Self {
        let counts = before.filter(|before| before.counts(failed, limits));
        let wait = counts.map_or(limits.first, |before| doubled(before.wait, 1, limits.longest));
        Self { wait, since: now }
    }

    /// Whether a failure at `failed` continues the series of failures of this pause.
    pub fn counts(&self, failed: Timestamp, limits: &Limits) -> bool {
        let forgotten = self.since.saturating_add(limits.forgotten_after);
        failed <= forgotten.unwrap_or(Timestamp::MAX)
    }

    /// When the wait is over.
    pub fn until(&self) -> Timestamp {
        self.since.saturating_add(self.wait).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits = [0, 1, 2, 3, 31, 32, u32::MAX].map(|times| doubled(SECOND, times, 6 * SECOND).as_secs());
        assert_eq!(waits, [1, 2, 4, 6, 6, 6, 6]);
    }

    #[test]
    fn a_success_resets_the_key_and_keys_are_independent() {
        let mut failures = Failures::default();
        assert_eq!([failures.add("a"), failures.add("a"), failures.add("b")], [0, 1, 0]);
        assert_eq!(failures.times(&"a"), 2);
        failures.clear(&"a");
        assert_eq!((failures.times(&"a"), failures.add("a")), (0, 0));
    }

    #[test]
    fn time_without_a_failure_resets_the_wait() {
        let limits = Limits {
            first: SECOND,
            longest: 3 * SECOND,
            forgotten_after: 10 * SECOND,
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut pause = None;
        let waits = [0, 5, 15, 25, 36].map(|second| {
            let next = Pause::after(pause, at(second), at(second), &limits);
            pause = Some(next);
            next.wait.as_secs()
        });
        assert_eq!(waits, [1, 2, 3, 3, 1]);
        assert_eq!(pause.map(|pause| pause.until()), Some(at(37)));
    }
}
