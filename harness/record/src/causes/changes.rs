//! The changes of all objects, and how objects belong together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Name;
use crate::draft::Draft;
use crate::model::Verb;

/// Kinds that many objects share. A change of their status says what another object did; only a change of the rest can be an
/// order to the objects that belong to them.
const SHARED: [&str; 7] = [
    "MachineSet",
    "MachineDeployment",
    "MachineClass",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
];
/// The maximum number of siblings that are considered when an object is created.
const MOST_SIBLINGS: usize = 64;

/// The changes of all objects.
pub(super) struct Changes {
    /// The events of an object by revision, and whether more than its status changed.
    revisions: BTreeMap<Name, BTreeMap<u64, (u64, bool)>>,
    /// The objects that belong to an object.
    children: BTreeMap<Name, BTreeSet<Name>>,
}

/// The names of the objects whose changes can lead to a write.
pub(super) struct Around {
    /// The object, its parts, its node or its machine.
    pub(super) own: BTreeSet<Name>,
    /// The objects that it shares with others, of which an order can come.
    pub(super) shared: BTreeSet<Name>,
}

impl Changes {
    pub(super) fn of(points: &[Draft]) -> Self {
        let mut revisions: BTreeMap<Name, BTreeMap<u64, (u64, bool)>> = BTreeMap::new();
        let mut children: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for draft in points.iter().filter(|draft| draft.point.verb != Verb::Event) {
            let (Some(key), Some(revision)) = (&draft.key, draft.point.revision) else {
                continue;
            };
            let name = (key.kind.to_owned(), key.name.clone());
            for (kind, parent) in &draft.related {
                let parent = ((*kind).to_owned(), parent.clone());
                children.entry(parent).or_default().insert(name.clone());
            }
            let change = (draft.id, is_order(draft));
            revisions.entry(name).or_default().entry(revision).or_insert(change);
        }
        Self { revisions, children }
    }

    /// The objects around the object of an event.
    pub(super) fn around(&self, draft: &Draft) -> Around {
        let related = draft.related.iter().filter(|(_, name)| !name.is_empty());
        let related = related.map(|(kind, name)| ((*kind).to_owned(), name.clone()));
        let (shared, mut own): (BTreeSet<Name>, BTreeSet<Name>) =
            related.partition(|(kind, _)| SHARED.contains(&kind.as_str()));
        let Some(key) = draft.key.as_ref().filter(|_| !draft.point.verb.is_about_an_object()) else {
            return Around { own, shared };
        };
        let name = (key.kind.to_owned(), key.name.clone());
        own.extend(self.children.get(&name).into_iter().flatten().cloned());
        if draft.previous.is_none() {
            // A new object replaces or completes its siblings.
            let siblings = shared.iter().filter_map(|owner| self.children.get(owner)).flatten();
            own.extend(
                siblings
                    .filter(|sibling| sibling.0 == name.0)
                    .take(MOST_SIBLINGS)
                    .cloned(),
            );
        }
        own.insert(name);
        Around { own, shared }
    }

    /// The event of an object's newest change up to a revision.
    pub(super) fn at(&self, name: &Name, revision: u64) -> Option<u64> {
        let of_object = self.revisions.get(name)?;
        of_object.range(..=revision).next_back().map(|(_, (id, _))| *id)
    }

    /// The event of the newest change of more than an object's status, up to a revision.
    pub(super) fn order_up_to(&self, name: &Name, revision: u64) -> Option<u64> {
        let mut up_to = self.revisions.get(name)?.range(..=revision).rev();
        up_to.find_map(|(_, (id, is_order))| is_order.then_some(*id))
    }

    /// The event of the change that gave an object a revision, if more than its status changed.
    pub(super) fn order_at(&self, name: &Name, revision: u64) -> Option<u64> {
        let (id, is_order) = self.revisions.get(name)?.get(&revision)?;
        is_order.then_some(*id)
    }
}

/// Whether a write changes more than the status of an object.
fn is_order(draft: &Draft) -> bool {
    match draft.point.diff.as_ref().and_then(Value::as_object) {
        Some(diff) => draft.previous.is_none() || diff.keys().any(|field| field != "status"),
        None => true,
    }
}
