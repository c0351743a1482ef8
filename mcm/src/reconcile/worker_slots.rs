//! Limits concurrency: the number of keys that do not wait for a driver, and the number of calls of each provider's
//! driver.
//!
//! A key that waits for its driver releases its slot, so that a stalled driver blocks only its own machines. A key
//! whose driver is at its limit is parked until a call ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// The slots of one process. Clones share them.
#[derive(Debug)]
pub(crate) struct WorkerSlots<K> {
    limit: usize,
    state: Arc<Mutex<State<K>>>,
}

impl<K> Clone for WorkerSlots<K> {
    fn clone(&self) -> Self {
        Self {
            limit: self.limit,
            state: Arc::clone(&self.state),
        }
    }
}

#[derive(Debug)]
struct State<K> {
    providers: BTreeMap<String, Provider<K>>,
}

#[derive(Debug)]
struct Provider<K> {
    calls: usize,
    parked: VecDeque<K>,
}

/// A call in progress, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit<K> {
    slots: WorkerSlots<K>,
    provider: String,
}

impl<K: PartialEq> WorkerSlots<K> {
    /// Allows `limit` keys to be processed, and `limit` calls of each provider.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Arc::new(Mutex::new(State {
                providers: BTreeMap::new(),
            })),
        }
    }

    /// Whether another key may start while `tasks` keys are being processed.
    pub(crate) fn is_free(&self, tasks: usize) -> bool {
        let state = self.lock();
        let calls: usize = state.providers.values().map(|provider| provider.calls).sum();
        tasks.saturating_sub(calls) < self.limit
    }

    /// Begins a call of the provider's driver; `None`: the driver is at its limit, and the key is parked.
    pub(crate) fn enter(&self, provider: &str, key: K) -> Option<Permit<K>> {
        let mut state = self.lock();
        let entry = state.providers.entry(provider.to_owned()).or_insert_with(|| Provider {
            calls: 0,
            parked: VecDeque::new(),
        });
        if entry.calls >= self.limit {
            if !entry.parked.contains(&key) {
                entry.parked.push_back(key);
            }
            return None;
        }
        entry.calls += 1;
        Some(Permit {
            slots: self.clone(),
            provider: provider.to_owned(),
        })
    }

    /// The parked keys that may try again, in first-in-first-out order.
    pub(crate) fn unparked(&self) -> Vec<K> {
        let mut keys = Vec::new();
        for provider in self.lock().providers.values_mut() {
            let free = self.limit.saturating_sub(provider.calls).min(provider.parked.len());
            keys.extend(provider.parked.drain(..free));
        }
        keys
    }
}

impl<K> WorkerSlots<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }
}

impl<K> Drop for Permit<K> {
    fn drop(&mut self) {
        if let Some(provider) = self.slots.lock().providers.get_mut(&self.provider) {
            provider.calls = provider.calls.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_releases_its_slot() {
        let slots = WorkerSlots::new(2);
        assert!(slots.is_free(1) && !slots.is_free(2));
        let first = slots.enter("red", "a").unwrap();
        let second = slots.enter("red", "b").unwrap();
        assert!(slots.is_free(3) && !slots.is_free(4));
        drop((first, second));
        assert!(!slots.is_free(2));
    }

    #[test]
    fn a_driver_at_its_limit_parks_only_its_own_keys() {
        let slots = WorkerSlots::new(1);
        let call = slots.enter("red", "a").unwrap();
        assert!(slots.enter("red", "b").is_none());
        assert!(slots.enter("red", "b").is_none());
        assert!(slots.enter("red", "c").is_none());
        assert!(slots.enter("blue", "d").is_some());
        assert_eq!(slots.unparked(), Vec::<&str>::new());
        drop(call);
        assert_eq!(slots.unparked(), ["b"]);
        assert!(slots.enter("red", "b").is_some());
    }
}
