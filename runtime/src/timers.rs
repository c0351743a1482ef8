//! Timers by key, as a plain value without tasks: the caller passes the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Each key has at most one deadline. Keys with equal deadlines are ordered by key, so that the result does not depend
/// on the order in which they were set.
#[derive(Clone, Debug)]
pub struct Timers<K> {
    by_key: BTreeMap<K, Timestamp>,
    by_time: BTreeSet<(Timestamp, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets the key's deadline, and replaces an existing one.
    pub fn set(&mut self, key: K, at: Timestamp) {
        if let Some(previous) = self.by_key.insert(key.clone(), at) {
            self.by_time.remove(&(previous, key.clone()));
        }
        self.by_time.insert((at, key));
    }

    /// Sets the key's deadline unless it has an earlier one.
    pub fn set_earlier(&mut self, key: K, at: Timestamp) {
        if self.by_key.get(&key).is_none_or(|previous| *previous > at) {
            self.set(key, at);
        }
    }

    /// Removes the key's deadline, if it has one.
    pub fn cancel(&mut self, key: &K) {
        if let Some((key, at)) = self.by_key.remove_entry(key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Whether the key has a deadline.
    pub fn is_set(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the first key whose deadline has passed.
    pub fn pop(&mut self, now: Timestamp) -> Option<K> {
        if self.next()? > now {
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

    fn due(timers: &mut Timers<&'static str>, second: i64) -> Vec<&'static str> {
        std::iter::from_fn(|| timers.pop(at(second))).collect()
    }

    #[test]
    fn keys_are_returned_by_time_and_then_by_key() {
        let mut timers = Timers::default();
        for (key, second) in [("c", 1), ("b", 2), ("a", 2), ("d", 9)] {
            timers.set(key, at(second));
        }
        assert_eq!(timers.next(), Some(at(1)));
        assert!(due(&mut timers, 0).is_empty());
        assert_eq!(due(&mut timers, 2), ["c", "a", "b"]);
        assert_eq!(timers.next(), Some(at(9)));
    }

    #[test]
    fn a_key_is_due_at_its_last_set_deadline() {
        let mut timers = Timers::default();
        timers.set("a", at(1));
        timers.set("a", at(5));
        assert!(due(&mut timers, 4).is_empty());
        timers.cancel(&"a");
        assert_eq!(timers.next(), None);
        assert!(!timers.is_set(&"a"));
    }

    #[test]
    fn set_earlier_keeps_the_earlier_deadline() {
        let mut timers = Timers::default();
        for (key, second) in [("a", 5), ("a", 7), ("b", 5), ("b", 3)] {
            timers.set_earlier(key, at(second));
        }
        assert!(timers.is_set(&"a"));
        assert_eq!(due(&mut timers, 5), ["b", "a"]);
    }
}
