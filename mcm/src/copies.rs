//! When this process copied a Node's conditions to its machine last, without any other change.
//!
//! Conditions may change all the time; without this memory so would the machines' statuses. What must not live here: how
//! often they may.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::cache::Key;

/// By machine.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<BTreeMap<Key, Timestamp>>);

impl Copies {
    /// They were copied now.
    pub(crate) fn note(&self, key: Key, now: Timestamp) {
        self.lock().insert(key, now);
    }

    /// When they were copied last; `None`: never by this process.
    pub(crate) fn last(&self, key: &Key) -> Option<Timestamp> {
        self.lock().get(key).copied()
    }

    /// There is no such machine any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
