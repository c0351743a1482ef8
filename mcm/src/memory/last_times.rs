//! When this process did something for each machine last.
//!
//! It remembers when a Node's conditions were copied without any other change: they may change all the time, and
//! without this memory so would the machines' statuses. And when a call of the cloud failed: a status that says the
//! same again is not written, so that its time is that of the first failure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;

/// By machine.
#[derive(Debug, Default)]
pub(crate) struct LastTimes(Mutex<BTreeMap<Key, Timestamp>>);

impl LastTimes {
    /// It was done now.
    pub(crate) fn note(&self, key: Key, now: Timestamp) {
        self.lock().insert(key, now);
    }

    /// When it was done last; `None`: never by this process.
    pub(crate) fn last(&self, key: &Key) -> Option<Timestamp> {
        self.lock().get(key).copied()
    }

    /// There is no such machine any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Timestamp>> {
        self.0.lock()
    }
}
