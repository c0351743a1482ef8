//! One timer wheel for all kubelets: leases, statuses, joins and pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Timers by key; each key has at most one deadline. Deadlines that are equal come in the order of
/// their keys, so nothing depends on the order in which they were set.
#[derive(Debug)]
pub(crate) struct Wheel<K> {
    deadlines: BTreeSet<(Timestamp, K)>,
    keys: BTreeMap<K, Timestamp>,
}

impl<K: Ord + Clone> Wheel<K> {
    pub(crate) fn new() -> Self {
        Self {
            deadlines: BTreeSet::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Sets the key's deadline; an earlier one is forgotten.
    pub(crate) fn set(&mut self, key: K, at: Timestamp) {
        if let Some(previous) = self.keys.insert(key.clone(), at) {
            self.deadlines.remove(&(previous, key.clone()));
        }
        self.deadlines.insert((at, key));
    }

    /// Sets the key's deadline unless it has an earlier one.
    pub(crate) fn set_earlier(&mut self, key: K, at: Timestamp) {
        if self.keys.get(&key).is_none_or(|previous| *previous > at) {
            self.set(key, at);
        }
    }

    pub(crate) fn cancel(&mut self, key: &K) {
        if let Some(at) = self.keys.remove(key) {
            self.deadlines.remove(&(at, key.clone()));
        }
    }

    pub(crate) fn is_set(&self, key: &K) -> bool {
        self.keys.contains_key(key)
    }

    /// The first deadline.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes out a key whose deadline has come.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.deadlines.pop_first()?;
        self.keys.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn timers_come_in_the_order_of_their_deadlines_and_each_once() {
        let mut wheel = Wheel::new();
        wheel.set("late", at(9));
        wheel.set("early", at(1));
        wheel.set("moved", at(2));
        wheel.set("moved", at(5));
        wheel.set("cancelled", at(3));
        wheel.cancel(&"cancelled");
        assert_eq!(wheel.pop(at(0)), None);
        assert_eq!(
            std::iter::from_fn(|| wheel.pop(at(5))).collect::<Vec<_>>(),
            ["early", "moved"]
        );
        assert_eq!(wheel.next(), Some(at(9)));
    }

    #[test]
    fn an_earlier_deadline_wins_when_asked_for() {
        let mut wheel = Wheel::new();
        wheel.set_earlier("a", at(5));
        wheel.set_earlier("a", at(9));
        assert_eq!(wheel.next(), Some(at(5)));
        wheel.set_earlier("a", at(2));
        assert_eq!(wheel.next(), Some(at(2)));
        assert!(wheel.is_set(&"a"));
    }
}
