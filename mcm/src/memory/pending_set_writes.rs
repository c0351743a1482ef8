//! Sets whose size or freeze is being written: from the request until its answer none of their machines is made, for what
//! was missing may not be wanted any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcm_api::{MachineSet, keys};
use parking_lot::{Mutex, MutexGuard};

use crate::cache::{Cache, Key};

/// Those sets, and by how many writes each is held. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingSetWrites(Arc<Mutex<BTreeMap<Key, usize>>>);

/// One write; the set is held until this is dropped. What came of the write is in the cache by then.
#[derive(Debug)]
#[must_use]
pub(crate) struct Hold {
    pending_set_writes: PendingSetWrites,
    set: Key,
}

impl PendingSetWrites {
    /// A write begins.
    pub(crate) fn begins(&self, set: &Key) -> Hold {
        *self.lock().entry(set.clone()).or_default() += 1;
        Hold {
            pending_set_writes: self.clone(),
            set: set.clone(),
        }
    }

    /// Whether the set is being written, or is frozen.
    pub(crate) fn holds(&self, set: &Key, sets: &Cache<MachineSet>) -> bool {
        let known = sets.get(set);
        let labels = known.as_ref().and_then(|set| set.metadata.labels.as_ref());
        let frozen = labels.and_then(|labels| labels.get(keys::FREEZE_LABEL));
        self.lock().contains_key(set) || frozen.is_some_and(|value| value == keys::TRUE)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, usize>> {
        self.0.lock()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.pending_set_writes.lock();
        if let Some(writes) = held.get_mut(&self.set) {
            *writes -= 1;
            if *writes == 0 {
                held.remove(&self.set);
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
    fn a_set_makes_nothing_from_the_decision_to_freeze_it_on() {
        let (held, sets) = (PendingSetWrites::default(), Cache::new());
        let key = Key::new("default", "ms");
        sets.apply(Event::Apply(set(json!({}))));
        assert!(!held.holds(&key, &sets));
        let hold = held.begins(&key);
        assert!(held.holds(&key, &sets));
        sets.apply(Event::Apply(set(json!({ "freeze": "True" }))));
        drop(hold);
        assert!(held.holds(&key, &sets), "it is frozen now");
    }

    #[test]
    fn a_set_that_is_written_twice_is_held_until_both_are_answered() {
        let (held, sets) = (PendingSetWrites::default(), Cache::new());
        let key = Key::new("default", "ms");
        let (first, second) = (held.begins(&key), held.begins(&key));
        drop(first);
        assert!(held.holds(&key, &sets));
        assert!(!held.holds(&Key::new("default", "other"), &sets));
        drop(second);
        assert!(!held.holds(&key, &sets));
    }
}
