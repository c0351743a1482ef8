//! An index of orphaned objects, so that a possible owner finds them without a scan.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Change, Kind, Object, ObjectKey};
use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

/// The keys of objects without a controller, by kind.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    by_kind: BTreeMap<Kind, BTreeSet<ObjectKey>>,
}

impl Orphans {
    /// Updates the index from a change.
    pub(super) fn observe(&mut self, change: &Change) {
        let kind = if change.of::<Pod>().is_some() {
            Kind::Pod
        } else if change.of::<ReplicaSet>().is_some() {
            Kind::ReplicaSet
        } else if change.of::<ControllerRevision>().is_some() {
            Kind::ControllerRevision
        } else {
            return;
        };
        let orphaned = change
            .after()
            .is_some_and(|object: &dyn Object| runtime::ownership::controller(object.metadata()).is_none());
        let orphans = self.by_kind.entry(kind).or_default();
        if orphaned {
            orphans.insert(change.key.clone());
        } else {
            orphans.remove(&change.key);
        }
    }

    /// The orphans of a namespace, in order.
    pub(super) fn of<'a>(&'a self, kind: Kind, namespace: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
        self.by_kind
            .get(&kind)
            .into_iter()
            .flat_map(move |keys| keys.range(ObjectKey::new(namespace, "")..))
            .take_while(move |key| key.namespace == namespace)
    }
}
