//! The attach-detach controller: creates a VolumeAttachment for every CSI volume that a pod on a node needs,
//! and deletes attachments of volumes that are no longer needed and no longer mounted.
//!
//! It decides per node. VolumeAttachments are the source of truth about attached volumes; the driver's attacher
//! performs them. `node.status.volumesAttached` follows: a volume is removed from it before its attachment is
//! deleted, so that no kubelet mounts a volume that is being detached.

mod decide;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};

use self::decide::{Memory, decide};
use super::users::{ClaimUsers, node_of};
use crate::foundation::{Change, Controller, Kind, ObjectKey, Plan, Queue, Transition, View};

pub use self::decide::{Reason, attachment_name, volume_name};

/// The controller. Its keys are node names.
#[derive(Debug, Default)]
pub struct AttachDetach {
    users: ClaimUsers,
    /// Attachments by volume, including terminating ones.
    attachments: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Nodes that wait until a volume is detached from another node.
    waiting: BTreeMap<String, BTreeSet<String>>,
    memory: BTreeMap<String, Memory>,
}

impl Controller for AttachDetach {
    type Key = String;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "attachdetach-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([
            Kind::Pod,
            Kind::Node,
            Kind::PersistentVolume,
            Kind::PersistentVolumeClaim,
            Kind::VolumeAttachment,
            Kind::CSIDriver,
        ])
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<String>) {
        if let Some(pod) = change.of::<Pod>() {
            self.users.observe(pod, &change.key);
            for node in pod.both().filter_map(node_of) {
                queue.add(node.to_owned());
            }
        } else if let Some(node) = change.of::<Node>() {
            if decide::matters(node) {
                queue.add(change.key.name.clone());
            }
        } else if change.of::<PersistentVolumeClaim>().is_some() {
            self.enqueue_users(&change.key, view, queue);
        } else if let Some(volume) = change.of::<PersistentVolume>() {
            for claim in volume.both().filter_map(super::binder::claim_of) {
                self.enqueue_users(&claim, view, queue);
            }
        } else if let Some(attachment) = change.of::<VolumeAttachment>() {
            self.attachment_changed(attachment, &change.key, queue);
        } else if change.of::<CSIDriver>().is_some() {
            for (node, _) in view.caches.nodes.iter() {
                queue.add(node.name.clone());
            }
        }
    }

    fn decide(&mut self, node: &String, view: View<'_>) -> Plan<Reason> {
        let mut memory = self.memory.remove(node).unwrap_or_default();
        let decision = decide(view.caches, node, &self.attachments, &mut memory, view.now);
        if !memory.is_empty() {
            self.memory.insert(node.clone(), memory);
        }
        for waiting in self.waiting.values_mut() {
            waiting.remove(node);
        }
        self.waiting.retain(|_, nodes| !nodes.is_empty());
        for volume in decision.waits_for {
            self.waiting.entry(volume).or_default().insert(node.clone());
        }
        decision.plan
    }
}

impl AttachDetach {
    fn enqueue_users(&self, claim: &ObjectKey, view: View<'_>, queue: &mut Queue<String>) {
        for pod in self.users.of(claim) {
            if let Some(node) = view.caches.pods.get(pod).and_then(|pod| node_of(pod)) {
                queue.add(node.to_owned());
            }
        }
    }

    fn attachment_changed(
        &mut self,
        attachment: Transition<'_, VolumeAttachment>,
        key: &ObjectKey,
        queue: &mut Queue<String>,
    ) {
        let Some(latest) = attachment.latest() else { return };
        queue.add(latest.spec.node_name.clone());
        let Some(volume) = latest.spec.source.persistent_volume_name.clone() else {
            return;
        };
        let known = self.attachments.entry(volume.clone()).or_default();
        if attachment.after.is_some() {
            known.insert(key.clone());
        } else {
            known.remove(key);
            if known.is_empty() {
                self.attachments.remove(&volume);
            }
            for node in self.waiting.get(&volume).into_iter().flatten() {
                queue.add(node.clone());
            }
        }
        if let Some(results) = decide::attachment_event(attachment) {
            let memory = self.memory.entry(latest.spec.node_name.clone()).or_default();
            memory.results.insert(volume, results);
        }
    }
}
