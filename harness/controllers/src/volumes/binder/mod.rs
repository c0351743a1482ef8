//! The persistent volume binder: the phases of claims and volumes, and the two references that bind them.
//!
//! Binding takes up to four writes (the volume's claim reference, its phase, the claim's volume name, its
//! phase). Each decision returns only the next missing write, so a crash between two writes needs no special
//! handling.

mod claims;
mod volumes;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::fit;
use crate::foundation::{Change, Controller, Kind, ObjectKey, Plan, Queue, Transition, View};

/// The key of a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A claim.
    Claim(ObjectKey),
    /// A volume.
    Volume(ObjectKey),
}

/// Why the binder writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The claim gets the default class.
    DefaultClass,
    /// The volume is reserved for the claim.
    Reserve,
    /// The claim gets the name of its volume.
    Name,
    /// The claim is bound.
    Bound,
    /// The claim has lost its volume.
    Lost,
    /// The claim waits for a pod to use it.
    FirstConsumer,
    /// A provisioner must create a volume.
    Provision,
    /// No volume matches the claim.
    NoVolume,
    /// The volume that the claim names does not match it.
    Mismatch(fit::Mismatch),
    /// The volume's phase changes.
    Phase(&'static str),
    /// The volume's claim is bound to another volume.
    Release,
}

/// The binder.
#[derive(Debug, Default)]
pub struct Binder {
    /// Claims without completed binding.
    unbound: BTreeSet<ObjectKey>,
}

impl Controller for Binder {
    type Key = Key;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::PersistentVolume, Kind::PersistentVolumeClaim, Kind::StorageClass])
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<Key>) {
        if let Some(claim) = change.of::<PersistentVolumeClaim>() {
            self.claim_changed(claim, &change.key, view, queue);
        } else if let Some(volume) = change.of::<PersistentVolume>() {
            queue.add(Key::Volume(change.key.clone()));
            for claim in volume.both().filter_map(claim_of) {
                queue.add(Key::Claim(claim));
            }
            for claim in view.caches.claims.indexed(&change.key.name) {
                queue.add(Key::Claim(ObjectKey::of(&**claim)));
            }
            if volume.after.is_some_and(|volume| claim_of(volume).is_none()) {
                self.enqueue_unbound(queue);
            }
        } else if change.of::<StorageClass>().is_some() {
            self.enqueue_unbound(queue);
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Plan<Reason> {
        match key {
            Key::Claim(key) => match view.caches.claims.get(key) {
                Some(claim) => claims::decide(view.caches, claim),
                None => Plan::nothing(),
            },
            Key::Volume(key) => match view.caches.volumes.get(key) {
                Some(volume) => volumes::decide(view.caches, volume, view.now),
                None => Plan::nothing(),
            },
        }
    }
}

impl Binder {
    fn claim_changed(
        &mut self,
        claim: Transition<'_, PersistentVolumeClaim>,
        key: &ObjectKey,
        view: View<'_>,
        queue: &mut Queue<Key>,
    ) {
        if claim.after.is_some_and(|claim| !claims::is_complete(claim)) {
            self.unbound.insert(key.clone());
        } else {
            self.unbound.remove(key);
        }
        queue.add(Key::Claim(key.clone()));
        for volume in claim.both().map(fit::volume_of).filter(|volume| !volume.is_empty()) {
            queue.add(Key::Volume(ObjectKey::cluster(volume)));
        }
        for volume in view.caches.volumes.indexed(&key.to_string()) {
            queue.add(Key::Volume(ObjectKey::of(&**volume)));
        }
    }

    fn enqueue_unbound(&self, queue: &mut Queue<Key>) {
        for claim in &self.unbound {
            queue.add(Key::Claim(claim.clone()));
        }
    }
}

/// The claim in a volume's claim reference.
pub(super) fn claim_of(volume: &PersistentVolume) -> Option<ObjectKey> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectKey::new(reference.namespace.clone()?, reference.name.clone()?))
}
