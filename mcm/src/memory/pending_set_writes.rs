//! Sets whose size or freeze is being written. They create no machines until the response, because missing machines may
//! not be wanted any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcm_api::{MachineSet, keys};
use parking_lot::{Mutex, MutexGuard};

use crate::cache::{Cache, Key};

/// The number of pending writes by set. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingSetWrites(Arc<Mutex<BTreeMap<Key, usize>>>);

/// A pending write, until this is dropped. The cache must contain the result of the write by then.
#[derive(Debug)]
#[must_use]
pub(crate) struct PendingWrite {
    pending_set_writes: PendingSetWrites,
    set: Key,
}

impl PendingSetWrites {
    /// Registers a write.
    pub(crate) fn begin(&self, set: &Key) -> PendingWrite {
        *self.lock().entry(set.clone()).or_default() += 1;
        PendingWrite {
            pending_set_writes: self.clone(),
            set: set.clone(),
        }
    }

    /// Whether the set has pending writes, or is frozen.
    pub(crate) fn contains(&self, set: &Key, sets: &Cache<MachineSet>) -> bool {
        let known = sets.get(set);
        let labels = known.as_ref().and_then(|set| set.metadata.labels.as_ref());
        let frozen = labels.and_then(|labels| labels.get(keys::FREEZE_LABEL));
        self.lock().contains_key(set) || frozen.is_some_and(|value| value == keys::TRUE)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, usize>> {
        self.0.lock()
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        let mut pending = self.pending_set_writes.lock();
        if let Some(writes) = pending.get_mut(&self.set) {
            *writes -= 1;
            if *writes == 0 {
                pending.remove(&self.set);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    fn set(labels: serde_json::Value) -> MachineSet {
        let set = json!({ "metadata": { "name": "ms", "namespace": "default", "labels": labels } });
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn a_set_counts_as_frozen_from_the_decision_to_freeze_it() {
        let (pending, sets) = (PendingSetWrites::default(), Cache::new());
        let key = Key::new("default", "ms");
        sets.apply(Event::Apply(set(json!({}))));
        assert!(!pending.contains(&key, &sets));
        let write = pending.begin(&key);
        assert!(pending.contains(&key, &sets));
        sets.apply(Event::Apply(set(json!({ "freeze": "True" }))));
        drop(write);
        assert!(pending.contains(&key, &sets), "the set is frozen now");
    }

    #[test]
    fn a_set_with_two_writes_is_pending_until_both_are_answered() {
        let (pending, sets) = (PendingSetWrites::default(), Cache::new());
        let key = Key::new("default", "ms");
        let (first, second) = (pending.begin(&key), pending.begin(&key));
        drop(first);
        assert!(pending.contains(&key, &sets));
        assert!(!pending.contains(&Key::new("default", "other"), &sets));
        drop(second);
        assert!(!pending.contains(&key, &sets));
    }
}
