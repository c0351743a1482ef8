//! A work queue of keys: each key is at most once in the queue, and at most once being processed.

use std::collections::{BTreeSet, VecDeque};

use jiff::Timestamp;
use runtime::timers::Timers;

/// Keys that are ready, keys that become ready later, and keys that are being processed.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    /// None of these is being processed.
    ready: VecDeque<K>,
    /// The keys in `ready`, and those that become ready once they are processed.
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
    /// Makes a key ready. A key that is being processed becomes ready again afterwards.
    pub(crate) fn add(&mut self, key: K) {
        self.later.cancel(&key);
        if self.queued.insert(key.clone()) && !self.working.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Makes a key ready at `when`, unless it becomes ready earlier.
    pub(crate) fn add_at(&mut self, key: K, when: Timestamp) {
        if !self.queued.contains(&key) {
            self.later.set_earlier(key, when);
        }
    }

    /// Returns the next ready key, in first-in-first-out order. The caller must return it with [`Self::done`].
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<K> {
        while let Some(key) = self.later.pop(now) {
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }

    /// Ends the processing of a key. If it was added meanwhile, it becomes ready at `earliest`, or at once.
    pub(crate) fn done(&mut self, key: &K, earliest: Option<Timestamp>) {
        if !self.working.remove(key) || !self.queued.contains(key) {
            return;
        }
        match earliest {
            Some(earliest) => {
                self.queued.remove(key);
                self.later.set_earlier(key.clone(), earliest);
            }
            None => self.ready.push_back(key.clone()),
        }
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
    fn keys_are_returned_once_in_first_in_first_out_order() {
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
    fn a_key_that_is_being_processed_waits_until_it_is_done() {
        let mut queue = Queue::default();
        queue.add("a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.pop(at(0)), Some("b"));
        assert_eq!(queue.pop(at(0)), None);
        queue.done(&"a", None);
        assert_eq!(queue.pop(at(0)), Some("a"));
    }

    #[test]
    fn a_key_that_was_added_while_being_processed_can_be_delayed() {
        let mut queue = Queue::default();
        for added in [true, false] {
            queue.add("a");
            assert_eq!(queue.pop(at(0)), Some("a"));
            if added {
                queue.add("a");
            }
            queue.done(&"a", Some(at(10)));
            assert_eq!(queue.pop(at(9)), None);
            assert_eq!(queue.pop(at(10)), added.then_some("a"), "added: {added}");
            queue.done(&"a", None);
        }
    }

    #[test]
    fn a_delayed_key_is_ready_at_its_earliest_time() {
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
    fn adding_a_delayed_key_makes_it_ready_and_removes_its_deadline() {
        let mut queue = Queue::default();
        queue.add_at("a", at(20));
        queue.add("a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        queue.done(&"a", None);
        assert_eq!(queue.pop(at(30)), None);
    }
}
