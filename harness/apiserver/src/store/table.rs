//! One table of the store: the current objects and the bounded history.
//!
//! A table is accessed only under the store's lock; it knows only revisions and keys.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use quantity::Saturating as _;

use super::{Change, ChangeKind, Key, Object, Scope};
use crate::signal;

/// The current objects and their history.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    history: VecDeque<Change>,
    /// The size of the states in the history, in bytes. A state that two changes share counts twice.
    history_size: usize,
    /// The history is complete from this revision on.
    floor: u64,
    /// Increases each time the table is restored after retirement; ends older watches.
    pub(super) incarnation: u64,
    pub(super) retired: bool,
    pub(super) changed: signal::Sender<u64>,
}

/// The limits of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryLimits {
    pub(super) changes: usize,
    pub(super) bytes: usize,
}

fn size(change: &Change) -> usize {
    let previous = change.previous.as_ref().map_or(0, |object| object.bytes().len());
    change.object.bytes().len().saturating_add(previous)
}

impl Table {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_size: 0,
            floor,
            incarnation: 1,
            retired: false,
            changed: signal::Sender::new(floor),
        }
    }

    /// The change to this version of an object, or its removal with this last state.
    pub(super) fn change(&self, object: Object, remove: bool) -> Change {
        let previous = self.objects.get(&object.key).cloned();
        Change {
            revision: object.revision,
            kind: match (remove, &previous) {
                (true, _) => ChangeKind::Deleted,
                (false, Some(_)) => ChangeKind::Modified,
                (false, None) => ChangeKind::Added,
            },
            object: Arc::new(object),
            previous,
        }
    }

    /// Applies a change to the objects and appends it to the history.
    pub(super) fn apply(&mut self, change: Change, limits: HistoryLimits) {
        let object = &change.object;
        if change.kind == ChangeKind::Deleted {
            self.objects.remove(&object.key);
        } else {
            self.objects.insert(object.key.clone(), Arc::clone(object));
        }
        self.record(change, limits);
    }

    /// Appends to the history and limits it.
    fn record(&mut self, change: Change, limits: HistoryLimits) {
        self.history_size.raise(size(&change));
        self.history.push_back(change);
        while self.history.len() > limits.changes || self.history_size > limits.bytes {
            let Some(oldest) = self.history.pop_front() else { return };
            self.history_size.lower(size(&oldest));
            self.floor = oldest.revision;
        }
    }

    /// The oldest revision that the history covers.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Discards the history.
    pub(super) fn compact(&mut self, revision: u64) {
        self.history.clear();
        self.history_size = 0;
        self.floor = revision;
    }

    /// At most `limit` changes after `revision`; `None` if the history does not reach back that far.
    pub(super) fn after(&self, revision: u64, limit: usize) -> Option<Vec<Change>> {
        if revision < self.floor {
            return None;
        }
        let start = self.history.partition_point(|change| change.revision <= revision);
        Some(self.history.range(start..).take(limit).cloned().collect())
    }

    /// Whether there are changes after `revision`.
    pub(super) fn has_after(&self, revision: u64) -> bool {
        self.history.back().is_some_and(|change| change.revision > revision)
    }

    /// The current objects.
    pub(super) fn now(&self, scope: &Scope) -> Vec<Arc<Object>> {
        let objects = self.objects.range((scope.start(), Bound::Unbounded));
        objects
            .map(|(_, object)| object)
            .take_while(|object| scope.covers(&object.key))
            .cloned()
            .collect()
    }

    /// The objects at `revision`: the current ones with later changes undone.
    pub(super) fn at(&self, scope: &Scope, revision: u64) -> Option<Vec<Arc<Object>>> {
        if revision < self.floor {
            return None;
        }
        if !self.has_after(revision) {
            return Some(self.now(scope));
        }
        let mut objects = BTreeMap::new();
        for object in self.now(scope) {
            objects.insert(object.key.clone(), object);
        }
        for change in self
            .history
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
        {
            let key = &change.object.key;
            if !scope.covers(key) || !scope.starts_before(key) {
                continue;
            }
            match &change.previous {
                Some(previous) => objects.insert(key.clone(), Arc::clone(previous)),
                None => objects.remove(key),
            };
        }
        Some(objects.into_values().collect())
    }
}
