//! Versions of an object that this process stored before its watch delivered them.

use std::sync::Arc;

use kube::Resource;

use super::revision;

/// How a version arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// As an event of a watch, which delivers every version.
    Watch,
    /// In a list, which skips all versions between two lists.
    List,
}

/// An object whose cached version comes from a response, not from the watch.
///
/// The response to a write contains all earlier changes, also those of other writers. The watch delivers every version
/// later, in order. A delivered version that this process did not write is therefore a change of another writer that is
/// already in the cache, but that no controller has seen as a change.
#[derive(Debug)]
pub(super) struct Unconfirmed<K> {
    /// The cached object at the last report of a change, or before the first response; `None`: there was none.
    last: Option<Arc<K>>,
    /// The last version that the watch delivered.
    delivered: Option<u64>,
    /// Versions that this process wrote and that the watch has not delivered.
    own: Vec<u64>,
}

impl<K: Resource> Unconfirmed<K> {
    /// Starts with the object as the watch delivered it.
    pub(super) fn since(last: Option<Arc<K>>) -> Self {
        Self {
            delivered: last.as_deref().and_then(revision),
            last,
            own: Vec::new(),
        }
    }

    /// Records a version that this process wrote.
    pub(super) fn wrote(&mut self, revision: u64) {
        self.own.push(revision);
    }

    /// Records a version that the watch delivered. Returns whether it is new and contains what another writer wrote, or
    /// may contain it.
    pub(super) fn delivered(&mut self, revision: u64, source: Source) -> bool {
        if self.delivered.is_some_and(|last| revision <= last) {
            return false;
        }
        self.delivered = Some(revision);
        let is_own = self.own.contains(&revision);
        self.own.retain(|own| *own > revision);
        !is_own || source == Source::List
    }

    /// Replaces the object at the last report; returns the previous one.
    pub(super) fn replace_last(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        self.last.replace(object)
    }
}
