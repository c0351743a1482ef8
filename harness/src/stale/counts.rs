//! Counts the objects of a kind with every change, and finds when there are too many or too few. Pure.

use std::collections::{BTreeMap, BTreeSet};

use apiserver::store::{Change, ChangeKind, Key};
use scenario::stale::ExpectedCount;

/// The objects that one expectation is about.
#[derive(Clone, Debug)]
pub(super) struct Count {
    /// The qualified resource.
    resource: String,
    labels: BTreeMap<String, String>,
    at_most: Option<usize>,
    at_least: Option<usize>,
    /// The objects that are not being deleted.
    live: BTreeSet<Key>,
    totals: Totals,
}

/// What was counted in the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// How often an object was added.
    pub(super) created: usize,
    /// How often a deletion began or an object was removed at once.
    pub(super) deleted: usize,
    /// The largest number at a time.
    pub(super) most: usize,
    /// The smallest number at a time since there were `atLeast`; `None`: there were never that many.
    pub(super) least: Option<usize>,
    /// The number now.
    pub(super) now: usize,
    /// The first change after which there were more than `atMost`, and how many.
    pub(super) first_above: Option<(u64, usize)>,
    /// The first change after which there were fewer than `atLeast`, and how many.
    pub(super) first_below: Option<(u64, usize)>,
}

impl Count {
    pub(super) fn new(expected: &ExpectedCount, resource: String) -> Self {
        Self {
            resource,
            labels: expected.labels.clone(),
            at_most: expected.at_most,
            at_least: expected.at_least,
            live: BTreeSet::new(),
            totals: Totals::default(),
        }
    }

    /// Counts a change.
    pub(super) fn add(&mut self, resource: &str, change: &Change) {
        if resource != self.resource {
            return;
        }
        let object = &change.object;
        let has = |(key, value): (&String, &String)| object.meta.labels.get(key) == Some(value);
        let is_live = change.kind != ChangeKind::Deleted && !object.meta.deleting && self.labels.iter().all(has);
        let changed = if is_live {
            self.live.insert(object.key.clone())
        } else {
            self.live.remove(&object.key)
        };
        if changed {
            self.count(is_live, change.revision);
        }
    }

    fn count(&mut self, added: bool, revision: u64) {
        let (now, totals) = (self.live.len(), &mut self.totals);
        totals.now = now;
        totals.most = totals.most.max(now);
        if added {
            totals.created += 1;
        } else {
            totals.deleted += 1;
        }
        if self.at_most.is_some_and(|most| now > most) {
            totals.first_above.get_or_insert((revision, now));
        }
        let Some(least) = self.at_least else { return };
        match totals.least {
            Some(known) => totals.least = Some(known.min(now)),
            None if now >= least => totals.least = Some(now),
            None => return,
        }
        if now < least {
            totals.first_below.get_or_insert((revision, now));
        }
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apiserver::store::Draft;
    use serde_json::json;

    use super::*;

    fn change(revision: u64, name: &str, app: &str, kind: ChangeKind, deleting: bool) -> Change {
        let mut value = json!({ "metadata": { "name": name, "labels": { "app": app } } });
        if deleting {
            value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Change {
            revision,
            kind,
            object: Arc::new(Draft::new(&value, Vec::new()).unwrap().finish(revision)),
            previous: None,
        }
    }

    fn counted(changes: &[(&str, &str, ChangeKind, bool)]) -> Totals {
        let expected = ExpectedCount {
            api_version: None,
            kind: "Pod".to_owned(),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            at_most: Some(2),
            at_least: Some(2),
        };
        let mut count = Count::new(&expected, "pods".to_owned());
        for (revision, (name, app, kind, deleting)) in (1..).zip(changes) {
            count.add("pods", &change(revision, name, app, *kind, *deleting));
            count.add("configmaps", &change(revision, name, "web", *kind, false));
        }
        count.totals().clone()
    }

    #[test]
    fn objects_with_the_labels_that_are_not_being_deleted_count() {
        let totals = counted(&[
            ("a", "web", ChangeKind::Added, false),
            ("b", "web", ChangeKind::Added, false),
            ("other", "db", ChangeKind::Added, false),
            ("a", "web", ChangeKind::Modified, false),
            ("c", "web", ChangeKind::Added, false),
            ("d", "web", ChangeKind::Added, false),
            ("a", "web", ChangeKind::Modified, true),
            ("a", "web", ChangeKind::Deleted, true),
        ]);
        assert_eq!((totals.created, totals.deleted, totals.most, totals.now), (4, 1, 4, 3));
        assert_eq!(totals.first_above, Some((5, 3)));
        assert_eq!((totals.least, totals.first_below), (Some(2), None));
    }

    #[test]
    fn there_are_too_few_only_after_there_were_enough() {
        let totals = counted(&[
            ("a", "web", ChangeKind::Added, false),
            ("b", "web", ChangeKind::Added, false),
            ("b", "web", ChangeKind::Deleted, false),
            ("b", "web", ChangeKind::Added, false),
        ]);
        assert_eq!((totals.least, totals.first_below), (Some(1), Some((3, 1))));
        assert_eq!(totals.first_above, None);
    }
}
