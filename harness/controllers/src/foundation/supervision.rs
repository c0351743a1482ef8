//! What remains of a controller that panicked: when it starts again, and which keys have to wait longer.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use runtime::backoff::{Failures, doubled};

/// The wait before a controller starts again, doubled with each panic.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The wait of a key whose decision panicked, doubled with each panic, so that it does not stop the other keys.
const SHORTEST_KEY_WAIT: Duration = Duration::from_secs(5);
const LONGEST_KEY_WAIT: Duration = Duration::from_secs(1000);
/// After this time without a panic the waits of the controller are short again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The panics of one controller.
#[derive(Debug)]
pub(super) struct Supervision<K> {
    consecutive: u32,
    last: Option<Timestamp>,
    resume_at: Option<Timestamp>,
    by_key: Failures<K>,
    deferred: BTreeMap<K, Timestamp>,
}

impl<K> Default for Supervision<K> {
    fn default() -> Self {
        Self {
            consecutive: 0,
            last: None,
            resume_at: None,
            by_key: Failures::default(),
            deferred: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Supervision<K> {
    /// Records a panic while `key` was processed; returns when the controller starts again.
    pub(super) fn panicked(&mut self, key: Option<&K>, now: Timestamp) -> Timestamp {
        let after = |wait: Duration| now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        let recent = self.last.and_then(|last| last.saturating_add(FORGOTTEN_AFTER).ok());
        if recent.is_none_or(|recent| recent < now) {
            self.consecutive = 0;
        }
        let resume_at = after(doubled(SHORTEST_WAIT, self.consecutive, LONGEST_WAIT));
        self.consecutive = self.consecutive.saturating_add(1);
        self.last = Some(now);
        self.resume_at = Some(resume_at);
        if let Some(key) = key {
            let wait = doubled(SHORTEST_KEY_WAIT, self.by_key.add(key.clone()), LONGEST_KEY_WAIT);
            self.deferred.insert(key.clone(), after(wait));
        }
        resume_at
    }

    /// When the controller starts again; `None` if it runs.
    pub(super) fn resume_at(&self) -> Option<Timestamp> {
        self.resume_at
    }

    /// The controller runs again.
    pub(super) fn resumed(&mut self) {
        self.resume_at = None;
    }

    /// The time of the next decision of `key` that was requested for `at`.
    pub(super) fn allowed(&self, key: &K, at: Timestamp) -> Timestamp {
        self.deferred.get(key).map_or(at, |deferred| at.max(*deferred))
    }

    /// The key was processed without a panic.
    pub(super) fn succeeded(&mut self, key: &K) {
        if self.deferred.remove(key).is_some() {
            self.by_key.clear(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn waits_double_up_to_a_limit_and_are_forgotten() {
        let mut supervision = Supervision::<u32>::default();
        let waits: Vec<i64> = [0, 10, 20, 30, 40, 50, 60, 10_000]
            .iter()
            .map(|now| supervision.panicked(None, at(*now)).as_second() - now)
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 1]);
        assert_eq!(supervision.resume_at(), Some(at(10_001)));
        supervision.resumed();
        assert_eq!(supervision.resume_at(), None);
    }

    #[test]
    fn only_the_key_that_panicked_waits() {
        let mut supervision = Supervision::default();
        supervision.panicked(Some(&1), at(0));
        assert_eq!(
            (supervision.allowed(&1, at(1)), supervision.allowed(&2, at(1))),
            (at(5), at(1))
        );
        assert_eq!(supervision.allowed(&1, at(7)), at(7));
        supervision.panicked(Some(&1), at(7));
        assert_eq!(supervision.allowed(&1, at(8)), at(17));
        supervision.succeeded(&1);
        supervision.panicked(Some(&1), at(20));
        assert_eq!(supervision.allowed(&1, at(20)), at(25));
    }
}
