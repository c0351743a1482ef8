//! Which key is due when: a timer queue without a task for each key.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// At most one due time for each key.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    by_key: BTreeMap<K, Timestamp>,
    by_time: BTreeSet<(Timestamp, K)>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> Schedule<K> {
    /// Makes `key` due at `at`, and at no other time.
    pub(crate) fn set(&mut self, key: K, at: Timestamp) {
        self.remove(&key);
        self.by_time.insert((at, key.clone()));
        self.by_key.insert(key, at);
    }

    /// Makes `key` due at `at` or earlier.
    pub(crate) fn set_no_later(&mut self, key: K, at: Timestamp) {
        if self.by_key.get(&key).is_none_or(|known| *known > at) {
            self.set(key, at);
        }
    }

    /// Makes `key` never due.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some((key, at)) = self.by_key.remove_entry(key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// The earliest due time.
    pub(crate) fn earliest(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out the first key that is due by `now`; keys of one time come in order.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<K> {
        if self.earliest()? > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn due(schedule: &mut Schedule<&'static str>, second: i64) -> Vec<&'static str> {
        std::iter::from_fn(|| schedule.take_due(at(second))).collect()
    }

    #[test]
    fn keys_come_out_by_time_and_then_in_order() {
        let mut schedule = Schedule::default();
        for (key, second) in [("c", 1), ("b", 2), ("a", 2), ("d", 9)] {
            schedule.set(key, at(second));
        }
        assert_eq!(schedule.earliest(), Some(at(1)));
        assert_eq!(due(&mut schedule, 2), ["c", "a", "b"]);
        assert_eq!(schedule.earliest(), Some(at(9)));
    }

    #[test]
    fn a_key_is_due_at_its_latest_setting_only() {
        let mut schedule = Schedule::default();
        schedule.set("a", at(1));
        schedule.set("a", at(5));
        assert!(due(&mut schedule, 4).is_empty());
        schedule.remove(&"a");
        assert_eq!(schedule.earliest(), None);
    }

    #[test]
    fn an_earlier_wish_wins_over_a_later_one() {
        let mut schedule = Schedule::default();
        schedule.set_no_later("a", at(5));
        schedule.set_no_later("a", at(7));
        schedule.set_no_later("b", at(5));
        schedule.set_no_later("b", at(3));
        assert_eq!(due(&mut schedule, 5), ["b", "a"]);
    }
}
