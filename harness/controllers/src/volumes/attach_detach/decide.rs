//! The decision about the volumes of one node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use kube::ResourceExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::fit;
use super::super::users::claims_of;
use crate::foundation::{Action, Caches, ObjectKey, Patch, Plan, Severity, Target, Transition};

/// The annotation by which kubelets leave attaching to this controller.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The taint by which an operator declares that the node is off, so that nothing is mounted there.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// How long the `volumesInUse` of an unhealthy node are respected (kube-controller-manager's value).
const MAX_WAIT_FOR_UNMOUNT: SignedDuration = SignedDuration::from_mins(6);

/// Why the controller writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A pod needs the volume.
    Attach(String),
    /// No pod needs the volume and the kubelet does not use it.
    Detach(String),
    /// No pod needs the volume, and the node is unresponsive.
    ForceDetach(String),
    /// The node's list of attached volumes is out of date.
    Report,
    /// The volume is exclusive and attached to another node.
    MultiAttach(String),
    /// An event reports the result of an attachment to the pods.
    Tell(String),
}

/// The state that the controller keeps for one node; it is rebuilt or harmless to lose after a restart.
#[derive(Debug, Default)]
pub struct Memory {
    /// Attached volumes that the node did not use when it last existed.
    unused: BTreeSet<String>,
    /// Volumes whose attachments this controller has deleted, and that still exist.
    going: BTreeSet<String>,
    /// When each volume became unneeded.
    unneeded_since: BTreeMap<String, Timestamp>,
    /// Volumes for which the pods have a Multi-Attach event.
    multi_attach_reported: BTreeSet<String>,
    /// Pending events about a volume.
    pub results: BTreeMap<String, AttachResult>,
}

impl Memory {
    /// Whether the state is empty.
    pub fn is_empty(&self) -> bool {
        self.unused.is_empty()
            && self.going.is_empty()
            && self.unneeded_since.is_empty()
            && self.multi_attach_reported.is_empty()
            && self.results.is_empty()
    }
}

/// The result of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachResult {
    /// The volume is attached.
    Attached,
    /// The attachment failed, with the error.
    Failed(String),
}

/// A plan, and the volumes that the node waits for because they are attached elsewhere.
#[derive(Debug)]
pub struct Decision {
    /// The plan.
    pub plan: Plan<Reason>,
    /// Names of volumes.
    pub waits_for: Vec<String>,
}

/// A volume that pods on the node need.
struct Needed {
    volume: Arc<PersistentVolume>,
    pods: Vec<Arc<Pod>>,
}

/// The prefix of CSI volumes in `volumesAttached` and `volumesInUse`.
const CSI_VOLUMES: &str = "kubernetes.io/csi/";

/// The name of a volume in a node's status.
pub fn volume_name(driver: &str, handle: &str) -> String {
    format!("{CSI_VOLUMES}{driver}^{handle}")
}

/// The name of the attachment of a volume to a node.
pub fn attachment_name(driver: &str, handle: &str, node: &str) -> String {
    let digest = Sha256::digest(format!("{handle}{driver}{node}"));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("csi-{hex}")
}

/// Whether a change of a node is relevant for this controller.
pub fn matters(node: Transition<'_, Node>) -> bool {
    let (Some(before), Some(after)) = (node.before, node.after) else {
        return true;
    };
    let status = |node: &Node| {
        let status = node.status.clone().unwrap_or_default();
        (status.volumes_in_use, status.volumes_attached)
    };
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
    status(before) != status(after)
        || taints(before) != taints(after)
        || is_healthy(before) != is_healthy(after)
        || is_managed(before) != is_managed(after)
}

/// The event to emit about a changed attachment.
pub fn attachment_event(attachment: Transition<'_, VolumeAttachment>) -> Option<AttachResult> {
    let after = attachment.after?.status.as_ref()?;
    let before = attachment.before.and_then(|before| before.status.as_ref());
    if after.attached {
        return (!before?.attached).then_some(AttachResult::Attached);
    }
    let error = after.attach_error.as_ref()?;
    let known = before.and_then(|before| before.attach_error.as_ref());
    let message = error.message.clone().unwrap_or_default();
    (known != Some(error)).then_some(AttachResult::Failed(message))
}

/// Decides about one node. `attachments` contains the attachments of all nodes, by volume.
pub fn decide(
    caches: &Caches,
    name: &str,
    attachments: &BTreeMap<String, BTreeSet<ObjectKey>>,
    memory: &mut Memory,
    now: Timestamp,
) -> Decision {
    let node = caches.nodes.get(&ObjectKey::cluster(name));
    let needed = match node {
        Some(node) if is_managed(node) => needed_on(caches, name),
        _ => BTreeMap::new(),
    };
    let mut decision = Decision {
        plan: Plan::nothing(),
        waits_for: Vec::new(),
    };
    let going = detach(
        caches,
        name,
        node.map(|node| &**node),
        &needed,
        memory,
        now,
        &mut decision.plan,
    );
    track_pending_detachments(caches, name, going.keys(), memory);
    if let Some(node) = node.filter(|node| is_managed(node)) {
        report(caches, node, &memory.going, &mut decision.plan);
    }
    let deletions = going.into_values().map(|attachment| Action::delete(&**attachment));
    decision.plan.actions.extend(deletions);
    emit_attachment_events(&needed, memory, &mut decision.plan);
    attach(caches, name, attachments, &needed, memory, &mut decision);
    decision
}

/// The attachable volumes of the pods on a node, by name.
fn needed_on(caches: &Caches, node: &str) -> BTreeMap<String, Needed> {
    let mut needed: BTreeMap<String, Needed> = BTreeMap::new();
    for pod in caches.pods.indexed(node).filter(|pod| !is_over(pod)) {
        for claim in claims_of(pod) {
            let Some(volume) = volume_of(caches, &claim) else {
                continue;
            };
            let entry = needed.entry(volume.name_any()).or_insert_with(|| Needed {
                volume: Arc::clone(volume),
                pods: Vec::new(),
            });
            entry.pods.push(Arc::clone(pod));
        }
    }
    needed
}

/// The volume that a claim is bound to, if its driver requires attachment.
fn volume_of<'a>(caches: &'a Caches, claim: &ObjectKey) -> Option<&'a Arc<PersistentVolume>> {
    let claim = caches.claims.get(claim)?;
    if claim.status.as_ref()?.phase.as_deref() != Some("Bound") {
        return None;
    }
    let volume = caches.volumes.get(&ObjectKey::cluster(fit::volume_of(claim)))?;
    let (driver, _) = fit::handle(volume)?;
    let attaches = caches
        .csi_drivers
        .get(&ObjectKey::cluster(driver))
        .is_none_or(|driver| driver.spec.attach_required != Some(false));
    (attaches && fit::is_for(volume, claim)).then_some(volume)
}

/// The attachments that can be deleted now, by volume; also schedules the next check of the others.
fn detach<'a>(
    caches: &'a Caches,
    name: &str,
    node: Option<&Node>,
    needed: &BTreeMap<String, Needed>,
    memory: &mut Memory,
    now: Timestamp,
    plan: &mut Plan<Reason>,
) -> BTreeMap<String, &'a Arc<VolumeAttachment>> {
    let mut going = BTreeMap::new();
    let mut unneeded = BTreeMap::new();
    track_unused(caches, name, node, memory);
    for attachment in caches.volume_attachments.indexed(name) {
        let Some(volume) = &attachment.spec.source.persistent_volume_name else {
            continue;
        };
        if needed.contains_key(volume) || attachment.metadata.deletion_timestamp.is_some() {
            continue;
        }
        // An attachment without a PersistentVolume is left alone, as upstream: its volume cannot be determined.
        if caches.volumes.get(&ObjectKey::cluster(volume)).is_none() {
            continue;
        }
        let since = memory.unneeded_since.get(volume).copied().unwrap_or(now);
        let forced_at = since.saturating_add(MAX_WAIT_FOR_UNMOUNT).unwrap_or(Timestamp::MAX);
        // Volumes that a missing node used last count as in use: their unmount cannot be confirmed.
        let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
        let in_use = attached && !memory.unused.contains(volume);
        let healthy = node.is_some_and(is_healthy);
        if !in_use {
            plan.reasons.push(Reason::Detach(volume.clone()));
        } else if node.is_some_and(is_out_of_service) || (!healthy && now >= forced_at) {
            plan.reasons.push(Reason::ForceDetach(volume.clone()));
        } else {
            unneeded.insert(volume.clone(), since);
            if !healthy {
                plan.requeue_by(forced_at);
            }
            continue;
        }
        going.insert(volume.clone(), attachment);
    }
    memory.unneeded_since = unneeded;
    going
}

/// Updates the node's `volumesAttached`. A volume whose attachment another client deletes stays in the list until
/// the driver has detached it. Entries that are not CSI volumes stay.
fn report(caches: &Caches, node: &Node, going: &BTreeSet<String>, plan: &mut Plan<Reason>) {
    let status = node.status.as_ref();
    let known = status
        .and_then(|status| status.volumes_attached.as_deref())
        .unwrap_or_default();
    let known: BTreeSet<String> = known.iter().map(|volume| volume.name.clone()).collect();
    let foreign = known.iter().filter(|name| !name.starts_with(CSI_VOLUMES)).cloned();
    let attached: BTreeSet<String> = caches
        .volume_attachments
        .indexed(&node.name_any())
        .filter(|attachment| attachment.status.as_ref().is_some_and(|status| status.attached))
        .filter_map(|attachment| attachment.spec.source.persistent_volume_name.as_ref())
        .filter(|volume| !going.contains(*volume))
        .filter_map(|volume| unique_name(caches, volume))
        .chain(foreign)
        .collect();
    if known == attached {
        return;
    }
    let list: Vec<_> = attached
        .iter()
        .map(|name| json!({ "name": name, "devicePath": "" }))
        .collect();
    let action = Action::Patch {
        target: Target::of(node),
        subresource: Some("status"),
        patch: Patch::Merge(json!({ "status": { "volumesAttached": list } })),
    };
    plan.push(Reason::Report, action);
}

/// Emits events about attachments on the pods.
fn emit_attachment_events(needed: &BTreeMap<String, Needed>, memory: &mut Memory, plan: &mut Plan<Reason>) {
    for (volume, results) in std::mem::take(&mut memory.results) {
        let Some(needed) = needed.get(&volume) else { continue };
        plan.reasons.push(Reason::Tell(volume.clone()));
        for pod in &needed.pods {
            plan.actions.push(match &results {
                AttachResult::Attached => {
                    let message = format!("AttachVolume.Attach succeeded for volume {volume:?} ");
                    Action::event(&**pod, Severity::Normal, "SuccessfulAttachVolume", message)
                }
                AttachResult::Failed(why) => {
                    let message = format!("AttachVolume.Attach failed for volume {volume:?} : {why}");
                    Action::event(&**pod, Severity::Warning, "FailedAttachVolume", message)
                }
            });
        }
    }
}

/// Creates the missing attachments.
fn attach(
    caches: &Caches,
    name: &str,
    attachments: &BTreeMap<String, BTreeSet<ObjectKey>>,
    needed: &BTreeMap<String, Needed>,
    memory: &mut Memory,
    decision: &mut Decision,
) {
    memory
        .multi_attach_reported
        .retain(|volume| needed.contains_key(volume));
    for (volume, needed) in needed {
        let Some((driver, handle)) = fit::handle(&needed.volume) else {
            continue;
        };
        let key = ObjectKey::cluster(attachment_name(&driver, &handle, name));
        if caches.volume_attachments.get(&key).is_some() {
            memory.multi_attach_reported.remove(volume);
            continue;
        }
        let elsewhere: Vec<&str> = attachments
            .get(volume)
            .into_iter()
            .flatten()
            .filter_map(|key| caches.volume_attachments.get(key))
            .map(|attachment| attachment.spec.node_name.as_str())
            .filter(|node| *node != name)
            .collect();
        if !elsewhere.is_empty() && !may_be_shared(&needed.volume) {
            decision.waits_for.push(volume.clone());
            if memory.multi_attach_reported.insert(volume.clone()) {
                decision.plan.reasons.push(Reason::MultiAttach(volume.clone()));
                for pod in &needed.pods {
                    let message = multi_attach_message(caches, volume, pod, &elsewhere);
                    let event = Action::event(&**pod, Severity::Warning, "FailedAttachVolume", message);
                    decision.plan.actions.push(event);
                }
            }
            continue;
        }
        memory.multi_attach_reported.remove(volume);
        let mut attachment = VolumeAttachment {
            spec: VolumeAttachmentSpec {
                attacher: driver,
                node_name: name.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(volume.clone()),
                    inline_volume_spec: None,
                },
            },
            ..VolumeAttachment::default()
        };
        attachment.metadata.name = Some(key.name);
        decision
            .plan
            .push(Reason::Attach(volume.clone()), Action::create(&attachment));
    }
}

fn multi_attach_message(caches: &Caches, volume: &str, pod: &Pod, elsewhere: &[&str]) -> String {
    let others: Vec<&Arc<Pod>> = elsewhere
        .iter()
        .flat_map(|node| caches.pods.indexed(node))
        .filter(|other| {
            claims_of(other).iter().any(|claim| {
                caches
                    .claims
                    .get(claim)
                    .is_some_and(|claim| fit::volume_of(claim) == volume)
            })
        })
        .collect();
    let near: Vec<String> = others
        .iter()
        .filter(|other| other.namespace() == pod.namespace())
        .map(|other| other.name_any())
        .collect();
    let far = others.len().saturating_sub(near.len());
    let why = match (near.as_slice(), far) {
        ([], 0) => "Volume is already exclusively attached to one node and can't be attached to another".to_owned(),
        ([], far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
        (near, 0) => format!("Volume is already used by pod(s) {}", near.join(", ")),
        (near, far) => format!(
            "Volume is already used by pod(s) {} and {far} pod(s) in different namespaces",
            near.join(", ")
        ),
    };
    format!("Multi-Attach error for volume {volume:?} {why}")
}

fn may_be_shared(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let modes = spec.and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.is_empty()
        || modes
            .iter()
            .any(|mode| matches!(mode.as_str(), "ReadWriteMany" | "ReadOnlyMany"))
}

fn unique_name(caches: &Caches, volume: &str) -> Option<String> {
    let (driver, handle) = fit::handle(caches.volumes.get(&ObjectKey::cluster(volume))?)?;
    Some(volume_name(&driver, &handle))
}

/// The attachments that are deleted now, and earlier ones that still exist.
fn track_pending_detachments<'a>(
    caches: &Caches,
    name: &str,
    going: impl Iterator<Item = &'a String>,
    memory: &mut Memory,
) {
    let attached = caches.volume_attachments.indexed(name);
    let deleted = attached.filter(|attachment| attachment.metadata.deletion_timestamp.is_some());
    let volumes = deleted.filter_map(|attachment| attachment.spec.source.persistent_volume_name.as_ref());
    let mut still: BTreeSet<String> = volumes
        .filter(|volume| memory.going.contains(*volume))
        .cloned()
        .collect();
    still.extend(going.cloned());
    memory.going = still;
}

/// The attached volumes that the node does not use or, if it is gone, did not use last.
fn track_unused(caches: &Caches, name: &str, node: Option<&Node>, memory: &mut Memory) {
    let attached = caches.volume_attachments.indexed(name);
    let volumes = attached.filter_map(|attachment| attachment.spec.source.persistent_volume_name.clone());
    let unused = |volume: &String| match node {
        Some(node) => !uses(caches, node, volume),
        None => memory.unused.contains(volume),
    };
    memory.unused = volumes.filter(unused).collect();
}

/// Whether the kubelet reports the volume as in use.
fn uses(caches: &Caches, node: &Node, volume: &str) -> bool {
    let in_use = node.status.as_ref().and_then(|status| status.volumes_in_use.as_deref());
    unique_name(caches, volume).is_some_and(|name| in_use.unwrap_or_default().contains(&name))
}

fn is_managed(node: &Node) -> bool {
    node.annotations().contains_key(MANAGED)
}

fn is_healthy(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints
        .unwrap_or_default()
        .iter()
        .any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Whether a pod no longer needs its volumes: it has finished, or is terminating and none of its containers
/// runs.
fn is_over(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return pod.metadata.deletion_timestamp.is_some();
    };
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let runs = status.container_statuses.iter().flatten().any(|container| {
        container
            .state
            .as_ref()
            .is_some_and(|state| state.terminated.is_none() && state.waiting.is_none())
    });
    finished || (pod.metadata.deletion_timestamp.is_some() && !runs)
}
