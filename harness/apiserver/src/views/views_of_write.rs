//! Compares a write with the changes that its client had not been sent. Pure.

use std::collections::BTreeMap;

use super::changes::{Changes, Recorded};
use super::client::{ClientView, Collection, FORGOTTEN};
use super::contradiction::{Unsent, Written, rule};
use super::record::{Contradiction, SentKind, SentObject};
use crate::store::Key;

/// The maximum number of contradictions per write: the oldest ones.
const CONTRADICTIONS: usize = 10;

/// A write, and what its client had been sent when it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    /// The position of the client.
    pub(super) client: usize,
    pub(super) view: &'a ClientView,
    /// What had been sent of the client's collections.
    pub(super) sent: &'a [u64],
    pub(super) changes: &'a Changes,
    pub(super) written: Written<'a>,
    /// The uid of the written object.
    pub(super) uid: &'a str,
    /// The newest revision of the written object that was sent by itself when the write arrived.
    pub(super) single: u64,
    /// Changes from this revision on came after the write.
    pub(super) before: u64,
}

impl Comparison<'_> {
    fn is_own(&self, change: &Recorded) -> bool {
        change.author.is_some_and(|author| author.client == self.client)
    }

    /// The revision up to which the client had been sent the changes of the changed object.
    fn sent_of(&self, resource: &str, change: &Recorded) -> u64 {
        let single = self.single_of(resource, change.key());
        self.listed_of(resource, change).max(single)
    }

    /// The newest revision of an object that was sent by itself, by reads of it and responses to writes.
    fn single_of(&self, resource: &str, key: &Key) -> u64 {
        if resource == self.written.resource && key == self.written.key {
            return self.single;
        }
        self.view.object(resource, key)
    }

    /// The revision up to which lists and watches had sent the changes of the changed object.
    fn listed_of(&self, resource: &str, change: &Recorded) -> u64 {
        let collections = self.view.collections(self.sent);
        let covering =
            collections.filter(|(collection, _)| collection.resource == resource && collection.covers(change));
        covering.map(|(_, sent)| sent).max().unwrap_or_default()
    }

    /// What had been sent of the written object.
    pub(super) fn object(&self) -> SentObject {
        let Written { resource, key, .. } = self.written;
        let log = self.changes.of(resource);
        let of_object = log.into_iter().flat_map(|log| log.between(0, self.before));
        let of_object = of_object.filter(|change| change.key() == key);
        let in_namespace = |collection: &Collection| {
            collection.resource == resource
                && collection.selector.is_empty()
                && collection
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| *namespace == key.namespace)
        };
        let covering = self.view.collections(self.sent);
        let listed = covering.filter(|(collection, _)| in_namespace(collection));
        let mut sent = listed.map(|(_, sent)| sent).fold(self.single, u64::max);
        let mut object = SentObject::default();
        for change in of_object {
            let sent_of_change = self.sent_of(resource, change);
            sent = sent.max(sent_of_change);
            object.newest = Some(change.revision());
            let unsent = change.revision() > sent_of_change && !self.is_own(change);
            object.behind = object.behind.saturating_add(u64::from(unsent));
        }
        object.sent = (sent > 0 && sent != FORGOTTEN).then_some(sent);
        object
    }

    /// The kinds of which changes had not been sent.
    pub(super) fn kinds(&self) -> Vec<SentKind> {
        let collections = self.view.collections(self.sent);
        let kinds = collections.map(|(collection, sent)| self.kind(collection, sent));
        kinds.filter(|kind| kind.behind > 0).collect()
    }

    fn kind(&self, collection: &Collection, sent: u64) -> SentKind {
        let log = self.changes.of(&collection.resource);
        let unsent = log.into_iter().flat_map(|log| log.between(sent, self.before));
        let mut kind = SentKind {
            resource: collection.resource.clone(),
            namespace: collection.namespace.clone().unwrap_or_default(),
            selector: collection.selector.clone(),
            sent,
            newest: sent,
            behind: 0,
            own: 0,
            at_least: log.is_some_and(|log| log.has_forgotten(sent)),
            related: collection.resource == self.written.resource,
        };
        // A newer list or watch of other collections may have sent the change.
        let is_unsent = |change: &&Recorded| self.listed_of(&collection.resource, change) < change.revision();
        for change in unsent.filter(|change| collection.covers(change)).filter(is_unsent) {
            kind.newest = change.revision();
            kind.behind = kind.behind.saturating_add(1);
            kind.own = kind.own.saturating_add(u64::from(self.is_own(change)));
            kind.related = kind.related || self.is_related(change);
        }
        kind
    }

    /// Whether the written object is the controller owner of the changed one, or is owned by it.
    fn is_related(&self, change: &Recorded) -> bool {
        let uid = change.change.object.meta.uid.as_str();
        self.written.owner == Some(uid) || (!self.uid.is_empty() && change.facts().owner.as_deref() == Some(self.uid))
    }

    /// The oldest changes that contradict the write.
    pub(super) fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        for (resource, oldest) in self.oldest_sent() {
            let Some(log) = self.changes.of(resource) else { continue };
            let others = log.between(oldest, self.before).filter(|change| !self.is_own(change));
            found.extend(others.filter_map(|change| self.contradiction(resource, change)));
        }
        found.sort_by_key(|contradiction| contradiction.revision);
        found.truncate(CONTRADICTIONS);
        found
    }

    /// The resources of which the client has been sent something that concerns the write, each with the oldest
    /// revision.
    fn oldest_sent(&self) -> BTreeMap<&str, u64> {
        let Written { resource, key, .. } = self.written;
        let mut oldest: BTreeMap<&str, u64> = BTreeMap::new();
        for (collection, sent) in self.view.collections(self.sent) {
            let known = oldest.entry(collection.resource.as_str()).or_insert(sent);
            *known = sent.min(*known);
        }
        let single = self.single_of(resource, key);
        if single > 0 {
            oldest.entry(resource).or_insert(single);
        }
        oldest
    }

    fn contradiction(&self, resource: &str, change: &Recorded) -> Option<Contradiction> {
        let sent = self.sent_of(resource, change);
        // A client that was never sent an object has no view of it.
        if sent == 0 || change.revision() <= sent {
            return None;
        }
        let facts = change.facts();
        let unsent = Unsent {
            resource,
            key: change.key(),
            uid: &change.change.object.meta.uid,
            owner: facts.owner.as_deref(),
            step: facts.step,
        };
        Some(Contradiction {
            rule: rule(&self.written, &unsent)?,
            revision: change.revision(),
            resource: resource.to_owned(),
            namespace: change.key().namespace.clone(),
            name: change.key().name.clone(),
            change: facts.text.clone(),
        })
    }
}
