//! The ownership graph, by uid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::{Object, ObjectKey, ResourceType};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// The maximum number of remembered uids of deleted objects.
const REMEMBERED: usize = 4096;

/// The ownership data of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub resource: Arc<ResourceType>,
    pub key: ObjectKey,
    pub revision: String,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

impl Node {
    pub(super) fn new(resource: &Arc<ResourceType>, object: &dyn Object) -> Self {
        let metadata = object.metadata();
        Self {
            resource: Arc::clone(resource),
            key: ObjectKey::of(object),
            revision: metadata.resource_version.clone().unwrap_or_default(),
            owners: metadata.owner_references.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    fn is_deleting_with(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|present| present == finalizer)
    }

    /// Whether it waits in foreground deletion for its dependents.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.is_deleting_with(FOREGROUND)
    }

    /// Whether its deletion orphans its dependents.
    pub(super) fn orphans_dependents(&self) -> bool {
        self.is_deleting_with(ORPHAN)
    }

    /// Whether an owner reference identifies this object: name and kind match, and the namespace if the owner
    /// has one.
    pub(super) fn matches_reference(&self, reference: &OwnerReference, dependent: &Self) -> bool {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.resource.group == group
            && self.resource.kind == reference.kind.as_str()
            && self.key.name == reference.name
            && (!self.resource.namespaced || self.key.namespace == dependent.key.namespace)
    }

    /// Whether it blocks the foreground deletion of that owner.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        self.owners
            .iter()
            .any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }
}

/// All objects.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    absent: BTreeSet<String>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects with `uid` in their owner references, ordered by uid.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&String, &Node)> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|dependent| self.nodes.get_key_value(dependent))
    }

    pub(super) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents(uid).next().is_some()
    }

    /// Whether the object with this uid is known to be deleted.
    pub(super) fn is_absent(&self, uid: &str) -> bool {
        self.absent.contains(uid)
    }

    /// Records that no object has this uid. Uids are never reused.
    pub(super) fn mark_absent(&mut self, uid: &str) {
        if self.absent.len() >= REMEMBERED {
            self.absent.clear();
        }
        self.absent.insert(uid.to_owned());
    }

    /// Inserts or replaces an object; returns its old state.
    pub(super) fn put(&mut self, uid: &str, node: Node) -> Option<Node> {
        let before = self.nodes.remove(uid);
        self.unlink(uid, before.as_ref());
        for owner in &node.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(uid.to_owned());
        }
        self.nodes.insert(uid.to_owned(), node);
        before
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Node> {
        let before = self.nodes.remove(uid);
        self.unlink(uid, before.as_ref());
        self.mark_absent(uid);
        before
    }

    fn unlink(&mut self, uid: &str, node: Option<&Node>) {
        for owner in node.iter().flat_map(|node| &node.owners) {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
