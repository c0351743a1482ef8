//! The time of the last action of some type for each machine.
//!
//! One use is the last copy of a Node's conditions without another change, which limits how often frequently changing
//! conditions cause status writes. Another is the last failed cloud call: a repeated failure does not change the
//! status, so that the status has the time of the first failure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;

/// The times, by machine.
#[derive(Debug, Default)]
pub(crate) struct LastTimes(Mutex<BTreeMap<Key, Timestamp>>);

impl LastTimes {
    /// Records the time of an action.
    pub(crate) fn note(&self, key: Key, now: Timestamp) {
        self.lock().insert(key, now);
    }

    /// The time of the last action; `None`: none by this process.
    pub(crate) fn last(&self, key: &Key) -> Option<Timestamp> {
        self.lock().get(key).copied()
    }

    /// Forgets a machine that does not exist any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Timestamp>> {
        self.0.lock()
    }
}
