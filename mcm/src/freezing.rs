//! Sets whose freeze is being written: between the decision and its answer none of their machines is made.
//!
//! What must not live here: when a set is frozen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcm_api::{MachineSet, keys};

use crate::cache::{Cache, Key};

/// Those sets. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Freezing(Arc<Mutex<BTreeSet<Key>>>);

impl Freezing {
    /// The write begins.
    pub(crate) fn begins(&self, set: &Key) {
        self.lock().insert(set.clone());
    }

    /// It was answered; what came of it is in the cache.
    pub(crate) fn ended(&self, set: &Key) {
        self.lock().remove(set);
    }

    /// Whether the set is frozen, or about to be.
    pub(crate) fn holds(&self, set: &Key, sets: &Cache<MachineSet>) -> bool {
        let known = sets.get(set);
        let labels = known.as_ref().and_then(|set| set.metadata.labels.as_ref());
        let frozen = labels.and_then(|labels| labels.get(keys::FREEZE_LABEL));
        self.lock().contains(set) || frozen.is_some_and(|value| value == keys::TRUE)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_makes_nothing_from_the_decision_to_freeze_it_on() {
        let (freezing, sets) = (Freezing::default(), Cache::new(&[]));
        let key = Key::new("default", "ms");
        let set = |labels| {
            serde_json::from_value(json!({ "metadata": { "name": "ms", "namespace": "default", "labels": labels } }))
        };
        sets.apply(Event::Apply(set(json!({})).unwrap()));
        assert!(!freezing.holds(&key, &sets));
        freezing.begins(&key);
        assert!(freezing.holds(&key, &sets));
        sets.apply(Event::Apply(set(json!({ "freeze": "True" })).unwrap()));
        freezing.ended(&key);
        assert!(freezing.holds(&key, &sets), "it is frozen now");
    }
}
