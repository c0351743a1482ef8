//! The store: every version of every object under one revision counter, and its history.
//!
//! It knows tables, keys and revisions; it must not know HTTP, kinds, or the semantics of writes. One critical
//! section assigns the revision, inserts the object and appends to the history, so a watch that has seen revision N
//! has seen everything up to N.

mod commit;
mod forms;
pub mod log;
mod object;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

pub use commit::{Commit, CommitListener};
pub use object::{Draft, Key, Meta, Object};

use log::{Content, Loaded, Log};
use table::{HistoryLimits, Table};

use crate::signal;
use quantity::Saturating as _;

/// The maximum size of the history of each table. Small objects reach the number of changes first.
const HISTORY_BYTES: usize = 64 * 1024 * 1024;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object is new.
    Added,
    /// The object existed before.
    Modified,
    /// The object was deleted; the change contains its last state.
    Deleted,
}

impl ChangeKind {
    /// The type of a watch event.
    pub fn event(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One committed change.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its revision.
    pub revision: u64,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The new object, or the last state of a deleted one.
    pub object: Arc<Object>,
    /// The previous state.
    pub previous: Option<Arc<Object>>,
}

/// The part of a table that a list covers.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only keys after this one.
    pub after: Option<Key>,
}

impl Scope {
    fn start(&self) -> Bound<Key> {
        match (&self.after, &self.namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        }
    }

    fn covers(&self, key: &Key) -> bool {
        self.namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == key.namespace)
    }

    fn starts_before(&self, key: &Key) -> bool {
        self.after.as_ref().is_none_or(|after| after < key)
    }
}

/// The objects of a list, by namespace and name, and their revision.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The revision.
    pub revision: u64,
    /// The objects.
    pub objects: Vec<Arc<Object>>,
}

/// A condition of a commit: another object still has that revision.
#[derive(Clone, Debug)]
pub struct Unchanged {
    /// Its table.
    pub table: String,
    /// Its key.
    pub key: Key,
    /// Its revision.
    pub revision: u64,
}

/// The reason why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The object, or another one that the commit depends on, has changed. Read and try again.
    #[error("the object changed meanwhile")]
    Raced,
    /// The table does not exist.
    #[error("the table is gone")]
    Gone,
    /// The change cannot be written to the log, with the reason.
    #[error("the change cannot be written to the data folder: {0}")]
    Unwritten(String),
}

/// The reason why the history cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// History does not reach back that far.
    #[error("history does not reach back that far")]
    Compacted,
    /// The table was removed.
    #[error("the table is gone")]
    Gone,
}

/// A position in a table's history. Watches pull; the store has no queues.
#[derive(Debug)]
pub struct Cursor {
    table: String,
    incarnation: u64,
    revision: u64,
    changed: signal::Receiver<u64>,
}

impl Cursor {
    /// All changes up to this revision have been read.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Waits until the table may have changed. Returns immediately if it has changed since the last read.
    pub async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The store was dropped: there are no more changes.
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Debug)]
struct Core {
    revision: u64,
    tables: BTreeMap<String, Table>,
    /// Where changes are written before they become visible.
    log: Option<Log>,
}

impl Core {
    fn content(&self) -> Content {
        let tables = self.tables.iter();
        Content {
            revision: self.revision,
            tables: tables
                .map(|(name, table)| (name.clone(), table.now(&Scope::default())))
                .collect(),
        }
    }
}

#[derive(Debug)]
pub struct Store {
    core: Mutex<Core>,
    revisions: signal::Sender<u64>,
    history: HistoryLimits,
    first: u64,
    listener: Option<Arc<dyn CommitListener>>,
}

impl Store {
    /// An empty store. `history` is the number of changes kept per table, up to 64 MiB.
    pub fn new(first_revision: u64, history: usize, listener: Option<Arc<dyn CommitListener>>) -> Self {
        let core = Core {
            revision: first_revision,
            tables: BTreeMap::new(),
            log: None,
        };
        let revisions = signal::Sender::new(first_revision);
        let history = HistoryLimits {
            changes: history,
            bytes: HISTORY_BYTES,
        };
        Self {
            core: Mutex::new(core),
            revisions,
            history,
            first: first_revision,
            listener,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Creates a table, or restores a retired one without objects.
    pub fn open(&self, table: &str) {
        let mut core = self.lock();
        let revision = core.revision;
        match core.tables.get_mut(table) {
            None => {
                core.tables.insert(table.to_owned(), Table::new(self.first));
            }
            Some(table) if table.retired => {
                table.retired = false;
                table.incarnation.raise(1);
                table.compact(revision);
            }
            Some(_) => {}
        }
    }

    /// Retires a table: its watches read the remaining changes and end; its objects disappear without changes.
    ///
    /// # Errors
    /// The log cannot be written; then nothing changed.
    pub fn retire(&self, name: &str) -> io::Result<()> {
        let mut core = self.lock();
        let Core { revision, tables, log } = &mut *core;
        if let Some(log) = log {
            log.retired(name)?;
        }
        if let Some(table) = tables.get_mut(name) {
            table.retired = true;
            table.objects.clear();
            table.changed.set(*revision);
        }
        Ok(())
    }

    /// Writes all later changes to the log of a folder, which is new or the one that this store was restored from.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_to(&self, folder: &Path, restored: Option<&Loaded>) -> io::Result<()> {
        let mut core = self.lock();
        let log = match restored {
            Some(restored) => Log::resume(folder, restored.last)?,
            None => Log::create(folder, &core.content())?,
        };
        core.log = Some(log);
        Ok(())
    }

    /// Inserts an object of a log at its revision, without history.
    pub fn restore_object(&self, table: &str, draft: Draft, revision: u64) {
        let mut core = self.lock();
        if let Some(table) = core.tables.get_mut(table) {
            let object = Arc::new(draft.finish(revision));
            table.objects.insert(object.key.clone(), object);
        }
    }

    /// Repeats a change of a log at its revision, without calling the listener.
    pub fn restore_change(&self, table: &str, draft: Draft, revision: u64, remove: bool) {
        let mut core = self.lock();
        if let Some(table) = core.tables.get_mut(table) {
            let change = table.change(draft.finish(revision), remove);
            table.apply(change, self.history);
        }
    }

    /// Repeats that a table was retired at this revision. The table is open: it was restored later.
    pub fn restore_retirement(&self, table: &str, revision: u64) {
        let mut core = self.lock();
        if let Some(table) = core.tables.get_mut(table) {
            table.objects.clear();
            table.compact(revision);
        }
    }

    /// Continues after this revision.
    pub fn restore_revision(&self, revision: u64) {
        let mut core = self.lock();
        core.revision = revision;
        self.revisions.set(revision);
        for table in core.tables.values_mut() {
            table.changed.set(revision);
        }
    }

    /// Inserts an initial object at an early revision, without history and without calling the listener. Only allowed
    /// before the first commit.
    pub fn seed(&self, table: &str, draft: Draft, revision: u64) {
        let mut core = self.lock();
        if let Some(table) = core.tables.get_mut(table) {
            let object = Arc::new(draft.finish(revision.min(self.first)));
            table.objects.insert(object.key.clone(), object);
        }
    }

    /// The revision of the table's last change, with notifications; `None` if the table does not exist.
    pub fn subscribe(&self, table: &str) -> Option<signal::Receiver<u64>> {
        self.lock().tables.get(table).map(|table| table.changed.subscribe())
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// The newest revision, with notifications.
    pub fn revisions(&self) -> signal::Receiver<u64> {
        self.revisions.subscribe()
    }

    /// The current object.
    pub fn get(&self, table: &str, key: &Key) -> Option<Arc<Object>> {
        self.lock().tables.get(table)?.objects.get(key).cloned()
    }

    /// Whether the table has no objects (in that namespace).
    pub fn is_empty(&self, table: &str, namespace: Option<&str>) -> bool {
        let scope = Scope {
            namespace: namespace.map(str::to_owned),
            after: None,
        };
        let core = self.lock();
        let Some(table) = core.tables.get(table) else {
            return true;
        };
        let first = table.objects.range((scope.start(), Bound::Unbounded)).next();
        first.is_none_or(|(key, _)| !scope.covers(key))
    }

    /// The current objects, or those at a revision.
    ///
    /// # Errors
    /// [`Lost::Compacted`] if the history does not reach back to that revision.
    pub fn list(&self, table: &str, scope: &Scope, at: Option<u64>) -> Result<Listing, Lost> {
        let core = self.lock();
        let table = core
            .tables
            .get(table)
            .filter(|table| !table.retired)
            .ok_or(Lost::Gone)?;
        match at {
            None => Ok(Listing {
                revision: core.revision,
                objects: table.now(scope),
            }),
            Some(revision) => {
                let objects = table.at(scope, revision).ok_or(Lost::Compacted)?;
                Ok(Listing { revision, objects })
            }
        }
    }

    /// The oldest revision of the history; `None` if the table does not exist.
    pub fn oldest(&self, table: &str) -> Option<u64> {
        self.lock().tables.get(table).map(Table::floor)
    }

    /// A position in the history after `after`, or after the newest revision.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn cursor(&self, table: &str, after: Option<u64>) -> Result<Cursor, Lost> {
        let core = self.lock();
        let entry = core
            .tables
            .get(table)
            .filter(|table| !table.retired)
            .ok_or(Lost::Gone)?;
        let revision = after.unwrap_or(core.revision);
        if entry.after(revision, 0).is_none() {
            return Err(Lost::Compacted);
        }
        let changed = entry.changed.subscribe();
        Ok(Cursor {
            table: table.to_owned(),
            incarnation: entry.incarnation,
            revision,
            changed,
        })
    }

    /// The current objects and a cursor after them.
    ///
    /// # Errors
    /// [`Lost::Gone`] if the table does not exist.
    pub fn snapshot(&self, table: &str, scope: &Scope) -> Result<(Listing, Cursor), Lost> {
        let core = self.lock();
        let entry = core
            .tables
            .get(table)
            .filter(|table| !table.retired)
            .ok_or(Lost::Gone)?;
        let revision = core.revision;
        let changed = entry.changed.subscribe();
        let cursor = Cursor {
            table: table.to_owned(),
            incarnation: entry.incarnation,
            revision,
            changed,
        };
        Ok((
            Listing {
                revision,
                objects: entry.now(scope),
            },
            cursor,
        ))
    }

    /// Reads up to `limit` changes after the cursor and advances it. Empty if there are none.
    ///
    /// # Errors
    /// [`Lost::Compacted`] if the history no longer covers the cursor, [`Lost::Gone`] if the table was retired and
    /// all its changes have been read.
    pub fn read(&self, cursor: &mut Cursor, limit: usize) -> Result<Vec<Change>, Lost> {
        let core = self.lock();
        let table = core.tables.get(&cursor.table).ok_or(Lost::Gone)?;
        if table.incarnation != cursor.incarnation {
            return Err(Lost::Gone);
        }
        cursor.changed.mark_unchanged();
        let changes = table.after(cursor.revision, limit).ok_or(Lost::Compacted)?;
        match changes.last() {
            Some(last) => cursor.revision = last.revision,
            None if table.retired => return Err(Lost::Gone),
            // This table has no changes up to the newest revision.
            None => cursor.revision = cursor.revision.max(core.revision),
        }
        Ok(changes)
    }

    /// Stores `draft` if the object still has revision `expected` (`None`: does not exist) and the conditions hold.
    ///
    /// # Errors
    /// See [`Refused`]; then nothing was written.
    pub fn put(
        &self,
        table: &str,
        expected: Option<u64>,
        draft: Draft,
        unchanged: Option<&Unchanged>,
    ) -> Result<Arc<Object>, Refused> {
        self.commit(table, expected, draft, unchanged, false)
    }

    /// Removes the object if it still has revision `expected`; `last` is its last state.
    ///
    /// # Errors
    /// See [`Refused`]; then nothing was written.
    pub fn remove(&self, table: &str, expected: u64, last: Draft) -> Result<Arc<Object>, Refused> {
        self.commit(table, Some(expected), last, None, true)
    }

    fn commit(
        &self,
        name: &str,
        expected: Option<u64>,
        draft: Draft,
        unchanged: Option<&Unchanged>,
        remove: bool,
    ) -> Result<Arc<Object>, Refused> {
        let mut core = self.lock();
        if let Some(other) = unchanged {
            let current = core
                .tables
                .get(&other.table)
                .and_then(|table| table.objects.get(&other.key));
            if current.is_none_or(|current| current.revision != other.revision) {
                return Err(Refused::Raced);
            }
        }
        let Core {
            revision: last,
            tables,
            log,
        } = &mut *core;
        let revision = last.saturating_add(1);
        let table = tables
            .get_mut(name)
            .filter(|table| !table.retired)
            .ok_or(Refused::Gone)?;
        let previous = table.objects.get(draft.key());
        if previous.map(|object| object.revision) != expected {
            return Err(Refused::Raced);
        }
        let change = table.change(draft.finish(revision), remove);
        if let Some(log) = log {
            let written = log.append(name, &change);
            written.map_err(|error| Refused::Unwritten(error.to_string()))?;
        }
        table.apply(change.clone(), self.history);
        table.changed.set(revision);
        *last = revision;
        self.revisions.set(revision);
        if log.as_mut().is_some_and(Log::is_long) {
            let content = core.content();
            if let Some(log) = &mut core.log {
                log.begin_generation(content);
            }
        }
        // Last, so that a panic in it leaves a complete commit.
        if let Some(listener) = &self.listener {
            listener.committed(&Commit {
                resource: name,
                change: &change,
            });
        }
        Ok(change.object)
    }

    /// Discards all history: every watch that is behind, and every continue token, gets 410.
    pub fn compact(&self) {
        let mut core = self.lock();
        let revision = core.revision;
        for table in core.tables.values_mut() {
            table.compact(revision);
        }
    }
}
