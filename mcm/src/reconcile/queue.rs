//! A work queue of keys: each at most once in the queue and at most once at work.

use std::collections::{BTreeSet, VecDeque};

use jiff::Timestamp;
use runtime::timers::Timers;

/// Keys that are ready, keys that become ready later, and keys at work.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    ready: VecDeque<K>,
    queued: BTreeSet<K>,
    later: Timers<K>,
    working: BTreeSet<K>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            later: Timers::default(),
            working: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Ord> Queue<K> {
    /// Makes a key ready. While it is at work it becomes ready again afterwards.
    pub(crate) fn add(&mut self, key: K) {
        self.later.cancel(&key);
        if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Makes a key ready at `when`, unless it is to be earlier.
    pub(crate) fn add_at(&mut self, key: K, when: Timestamp) {
        if !self.queued.contains(&key) {
            self.later.set_earlier(key, when);
        }
    }

    /// The next key to work on: first come, first served. It must be given back by [`Self::done`].
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<K> {
        while let Some(key) = self.later.pop(now) {
            self.add(key);
        }
        let position = self.ready.iter().position(|key| !self.working.contains(key))?;
        let key = self.ready.remove(position)?;
        self.queued.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }

    /// Ends the work on a key.
    pub(crate) fn done(&mut self, key: &K) {
        self.working.remove(key);
    }

    /// When the next key that waits becomes ready.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.later.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn keys_come_out_in_the_order_they_came_in_and_once() {
        let mut queue = Queue::default();
        for key in ["b", "a", "b"] {
            queue.add(key);
        }
        assert_eq!(
            [queue.pop(at(0)), queue.pop(at(0)), queue.pop(at(0))],
            [Some("b"), Some("a"), None]
        );
    }

    #[test]
    fn a_key_at_work_waits_until_it_is_done() {
        let mut queue = Queue::default();
        queue.add("a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.pop(at(0)), Some("b"));
        assert_eq!(queue.pop(at(0)), None);
        queue.done(&"a");
        assert_eq!(queue.pop(at(0)), Some("a"));
    }

    #[test]
    fn a_later_key_is_ready_at_its_time_and_the_earliest_time_counts() {
        let mut queue = Queue::default();
        queue.add_at("a", at(20));
        queue.add_at("a", at(10));
        queue.add_at("a", at(30));
        assert_eq!(queue.next_deadline(), Some(at(10)));
        assert_eq!(queue.pop(at(9)), None);
        assert_eq!(queue.pop(at(10)), Some("a"));
        assert_eq!(queue.next_deadline(), None);
    }

    #[test]
    fn a_change_brings_a_waiting_key_forward_and_its_deadline_goes() {
        let mut queue = Queue::default();
        queue.add_at("a", at(20));
        queue.add("a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.pop(at(30)), None);
    }
}
