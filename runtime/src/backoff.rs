//! How long to wait before something that failed is tried again: longer while failures continue.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// `first`, doubled so many times, at most `longest`.
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// How often each key failed in a row.
#[derive(Clone, Debug)]
pub struct Failures<K>(BTreeMap<K, u32>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Failures<K> {
    /// The key failed once more; returns how often it failed before that, in a row.
    pub fn add(&mut self, key: K) -> u32 {
        let times = self.0.entry(key).or_default();
        let before = *times;
        *times = times.saturating_add(1);
        before
    }

    /// How often the key failed in a row.
    pub fn times(&self, key: &K) -> u32 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// The key succeeded, or is no longer worked on.
    pub fn clear(&mut self, key: &K) {
        self.0.remove(key);
    }
}

/// The waits of what fails from time to time, without a success that would end a row of failures.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The first wait.
    pub first: Duration,
    /// The longest one.
    pub longest: Duration,
    /// After that time without a failure the waits begin with the first one.
    pub forgotten_after: Duration,
}

/// A wait that began at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// How long it is.
    pub wait: Duration,
    /// When it began.
    pub since: Timestamp,
}

impl Pause {
    /// The pause that begins at `now`, after something that failed at `failed` and had that pause before.
    pub fn after(before: Option<Self>, failed: Timestamp, now: Timestamp, limits: &Limits) -> Self {
        let counts = before.filter(|before| before.counts(failed, limits));
        let wait = counts.map_or(limits.first, |before| doubled(before.wait, 1, limits.longest));
        Self { wait, since: now }
    }

    /// Whether a failure at that time continues the row of failures that this pause belongs to.
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
    fn each_wait_is_twice_the_one_before_up_to_the_longest() {
        let waits = [0, 1, 2, 3, 31, 32, u32::MAX].map(|times| doubled(SECOND, times, 6 * SECOND).as_secs());
        assert_eq!(waits, [1, 2, 4, 6, 6, 6, 6]);
    }

    #[test]
    fn a_success_and_other_keys_begin_with_the_first_wait() {
        let mut failures = Failures::default();
        assert_eq!([failures.add("a"), failures.add("a"), failures.add("b")], [0, 1, 0]);
        assert_eq!(failures.times(&"a"), 2);
        failures.clear(&"a");
        assert_eq!((failures.times(&"a"), failures.add("a")), (0, 0));
    }

    #[test]
    fn a_good_while_without_a_failure_is_a_new_beginning() {
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
