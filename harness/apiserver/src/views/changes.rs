//! The recent changes of each resource, and which request made them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use quantity::Saturating as _;

use super::facts::ChangeFacts;
use crate::store::{Change, Key};

/// The maximum number of changes per resource.
const CHANGES: usize = 10_000;
/// The maximum size of the states of the changes of a resource in bytes. The store's history shares most of them.
const BYTES: usize = 32 * 1024 * 1024;

/// The request that made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) client: usize,
    pub(super) request: u64,
}

/// A recorded change.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) change: Change,
    /// The request of a recorded client; `None`: another client or the server itself.
    pub(super) author: Option<Author>,
    facts: OnceLock<ChangeFacts>,
}

impl Recorded {
    pub(super) fn key(&self) -> &Key {
        &self.change.object.key
    }

    pub(super) fn revision(&self) -> u64 {
        self.change.revision
    }

    /// The facts, which are parsed when they are first needed.
    pub(super) fn facts(&self) -> &ChangeFacts {
        self.facts.get_or_init(|| ChangeFacts::of(&self.change))
    }

    fn size(&self) -> usize {
        let previous = self.change.previous.as_ref().map_or(0, |object| object.bytes().len());
        self.change.object.bytes().len().saturating_add(previous)
    }
}

/// The recent changes of one resource.
#[derive(Debug, Default)]
pub(super) struct Log {
    changes: VecDeque<Recorded>,
    bytes: usize,
    /// Changes up to this revision are no longer recorded.
    forgotten: u64,
}

impl Log {
    /// The changes after `after` and before `before`, oldest first.
    pub(super) fn between(&self, after: u64, before: u64) -> impl Iterator<Item = &Recorded> {
        let start = self.changes.partition_point(|change| change.revision() <= after);
        let changes = self.changes.range(start..);
        changes.take_while(move |change| change.revision() < before)
    }

    /// The changes of a request, which arrived at revision `after`; oldest first.
    pub(super) fn of_request(&self, author: Author, after: u64) -> impl Iterator<Item = &Recorded> {
        self.between(after, u64::MAX)
            .filter(move |change| change.author == Some(author))
    }

    /// Whether changes after `revision` are no longer recorded.
    pub(super) fn has_forgotten(&self, revision: u64) -> bool {
        revision < self.forgotten
    }

    fn push(&mut self, change: Change, author: Option<Author>, limits: (usize, usize)) {
        let recorded = Recorded {
            change,
            author,
            facts: OnceLock::new(),
        };
        self.bytes.raise(recorded.size());
        self.changes.push_back(recorded);
        while self.changes.len() > limits.0 || self.bytes > limits.1 {
            let Some(oldest) = self.changes.pop_front() else { return };
            self.bytes.lower(oldest.size());
            self.forgotten = oldest.revision();
        }
    }
}

/// The recent changes of all resources.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<String, Log>);

impl Changes {
    pub(super) fn push(&mut self, resource: &str, change: Change, author: Option<Author>) {
        match self.0.get_mut(resource) {
            Some(log) => log.push(change, author, (CHANGES, BYTES)),
            None => {
                let mut log = Log::default();
                log.push(change, author, (CHANGES, BYTES));
                self.0.insert(resource.to_owned(), log);
            }
        }
    }

    pub(super) fn of(&self, resource: &str) -> Option<&Log> {
        self.0.get(resource)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::store::{ChangeKind, Draft};

    fn change(revision: u64) -> Change {
        let value = json!({ "metadata": { "name": format!("o-{revision}") } });
        Change {
            revision,
            kind: ChangeKind::Added,
            object: Arc::new(Draft::new(&value, Vec::new()).unwrap().finish(revision)),
            previous: None,
        }
    }

    #[test]
    fn a_log_is_limited_and_knows_what_it_has_forgotten() {
        let mut log = Log::default();
        for revision in 1..=10 {
            log.push(change(revision), None, (3, BYTES));
        }
        let revisions: Vec<u64> = log.between(0, 10).map(Recorded::revision).collect();
        assert_eq!(revisions, [8, 9]);
        assert!(log.has_forgotten(6) && !log.has_forgotten(7));
        let size = change(1).object.bytes().len();
        log.push(change(11), None, (3, size * 2));
        assert_eq!(log.changes.len(), 1);
    }

    #[test]
    fn the_changes_of_a_request_are_found() {
        let author = |request| Author { client: 0, request };
        let mut log = Log::default();
        for revision in 1..=6 {
            log.push(change(revision), Some(author(revision % 2)), (9, BYTES));
        }
        let of_first: Vec<u64> = log.of_request(author(1), 1).map(Recorded::revision).collect();
        assert_eq!(of_first, [3, 5]);
    }
}
