//! Volume checks of the scheduler: claims, volumes, classes, and attach limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;

use super::node::NodeInfo;
use super::pod::PodInfo;
use super::reason::Reason;
use crate::foundation::{Caches, ObjectKey};
use crate::matching::{in_topologies, selects_node};
use crate::volumes::fit::{self, BIND_COMPLETED, NO_PROVISIONER, SELECTED_NODE};

/// Topology labels of volumes; a node must have the same.
const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Separates zones in the label's value.
const ZONE_SEPARATOR: &str = "__";

/// The claims of one pod, by binding state.
#[derive(Clone, Debug, Default)]
pub struct PodVolumes {
    /// Volumes bound to its claims.
    bound: Vec<Arc<PersistentVolume>>,
    /// Whether a claim is bound to a missing volume.
    volume_missing: bool,
    /// Unbound claims with `WaitForFirstConsumer`.
    waiting: Vec<Arc<PersistentVolumeClaim>>,
    /// ReadWriteOncePod claims.
    pub exclusive: BTreeSet<ObjectKey>,
}

/// How a claim gets its volume after a node is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// The volume is bound to the claim.
    Static {
        /// The volume's name.
        volume: String,
        /// The claim.
        claim: ObjectKey,
    },
    /// The provisioner creates a volume for the node.
    Provision {
        /// The claim.
        claim: ObjectKey,
    },
}

/// Groups a pod's claims; fails when no node can fit.
pub fn of_pod(caches: &Caches, pod: &PodInfo) -> Result<PodVolumes, Reason> {
    let mut found = PodVolumes::default();
    let mut immediate = false;
    for (claim_name, ephemeral) in &pod.claims {
        let name = ObjectKey::new(&pod.name.namespace, claim_name);
        let Some(claim) = caches.claims.get(&name) else {
            return Err(if *ephemeral {
                Reason::EphemeralClaimMissing(claim_name.clone())
            } else {
                Reason::ClaimMissing(claim_name.clone())
            });
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(Reason::ClaimDeleting(claim_name.clone()));
        }
        let status = claim.status.as_ref();
        if status.and_then(|status| status.phase.as_deref()) == Some("Lost") {
            return Err(Reason::ClaimLost {
                claim: claim_name.clone(),
                volume: fit::volume_of(claim).to_owned(),
            });
        }
        if fit::access_modes(claim).contains(&"ReadWriteOncePod") {
            found.exclusive.insert(name);
        }
        if !fit::volume_of(claim).is_empty() && claim.annotations().contains_key(BIND_COMPLETED) {
            match caches.volumes.get(&ObjectKey::cluster(fit::volume_of(claim))) {
                Some(volume) => found.bound.push(Arc::clone(volume)),
                None => found.volume_missing = true,
            }
        } else if waits_for_consumer(caches, claim) && fit::volume_of(claim).is_empty() {
            found.waiting.push(Arc::clone(claim));
        } else {
            immediate = true;
        }
    }
    if immediate {
        return Err(Reason::UnboundImmediateClaims);
    }
    Ok(found)
}

fn waits_for_consumer(caches: &Caches, claim: &PersistentVolumeClaim) -> bool {
    caches
        .storage_classes
        .get(&ObjectKey::cluster(fit::class_of(claim)))
        .is_some_and(|class| fit::waits_for_consumer(class))
}

/// Why the pod's volumes exclude the node; `None` if they do not.
pub fn check(caches: &Caches, volumes: &PodVolumes, node: &NodeInfo) -> Option<Reason> {
    if volumes.volume_missing {
        return Some(Reason::BoundVolumeMissing);
    }
    let reached = volumes.bound.iter().all(|volume| reaches(volume, node));
    if !reached {
        return Some(Reason::VolumeNodeAffinity);
    }
    if !volumes.waiting.is_empty() && bindings(caches, volumes, node).is_none() {
        return Some(Reason::NoVolumeToBind);
    }
    None
}

/// Whether a zone label of the pod's volumes excludes the node.
pub fn is_in_other_zone(volumes: &PodVolumes, node: &NodeInfo) -> bool {
    volumes.bound.iter().any(|volume| {
        ZONE_LABELS.iter().any(|key| {
            volume.labels().get(*key).is_some_and(|zones| {
                let zone = node.labels().get(*key).map(String::as_str).unwrap_or_default();
                !zones.split(ZONE_SEPARATOR).any(|allowed| allowed == zone)
            })
        })
    })
}

/// The bindings of the unbound claims on this node; `None` when a claim finds no volume.
pub fn bindings(caches: &Caches, volumes: &PodVolumes, node: &NodeInfo) -> Option<Vec<Binding>> {
    let mut taken = BTreeSet::new();
    let mut bindings = Vec::new();
    for claim in &volumes.waiting {
        if let Some(selected) = claim.annotations().get(SELECTED_NODE).filter(|name| !name.is_empty()) {
            if *selected != node.name {
                return None;
            }
            bindings.push(Binding::Provision {
                claim: ObjectKey::of(&**claim),
            });
            continue;
        }
        let candidates = caches
            .volumes
            .iter()
            .map(|(_, volume)| volume)
            .filter(|volume| !taken.contains(&volume.name_any()) && reaches(volume, node));
        if let Some(volume) = fit::best(claim, candidates) {
            taken.insert(volume.name_any());
            bindings.push(Binding::Static {
                volume: volume.name_any(),
                claim: ObjectKey::of(&**claim),
            });
            continue;
        }
        let class = caches.storage_classes.get(&ObjectKey::cluster(fit::class_of(claim)))?;
        let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
        if class.provisioner == NO_PROVISIONER || !in_topologies(topologies, node.labels()) {
            return None;
        }
        bindings.push(Binding::Provision {
            claim: ObjectKey::of(&**claim),
        });
    }
    Some(bindings)
}

/// Whether the pod's volumes exceed the node's attach limits.
pub fn exceeds_limits(caches: &Caches, pod: &PodInfo, node: &NodeInfo) -> bool {
    let Some(csi) = caches.csi_nodes.get(&ObjectKey::cluster(&node.name)) else {
        return false;
    };
    let wanted: BTreeSet<(String, String)> = pod
        .claims
        .iter()
        .filter_map(|(claim, _)| attachable(caches, &ObjectKey::new(&pod.name.namespace, claim)))
        .collect();
    if wanted.is_empty() {
        return false;
    }
    let mut attached: BTreeSet<(String, String)> = node
        .claims
        .keys()
        .filter_map(|claim| attachable(caches, claim))
        .collect();
    let there = caches.volume_attachments.indexed(&node.name);
    attached.extend(there.filter_map(|attachment| {
        let volume = attachment.spec.source.persistent_volume_name.as_ref()?;
        fit::handle(caches.volumes.get(&ObjectKey::cluster(volume))?)
    }));
    csi.spec.drivers.iter().any(|driver| {
        let Some(limit) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
            return false;
        };
        let of_driver = |(name, _): &&(String, String)| *name == driver.name;
        let new = wanted.difference(&attached).filter(of_driver).count();
        let count = new.saturating_add(attached.iter().filter(of_driver).count());
        new > 0 && i64::try_from(count).is_ok_and(|count| count > i64::from(limit))
    })
}

/// CSI driver and handle of a claim's volume. A claim without a volume counts for its provisioner, under its
/// own name.
fn attachable(caches: &Caches, name: &ObjectKey) -> Option<(String, String)> {
    let claim = caches.claims.get(name)?;
    match caches.volumes.get(&ObjectKey::cluster(fit::volume_of(claim))) {
        Some(volume) => fit::handle(volume),
        None => {
            let class = caches.storage_classes.get(&ObjectKey::cluster(fit::class_of(claim)))?;
            Some((class.provisioner.clone(), name.to_string()))
        }
    }
}

/// Whether the node matches the volume's node affinity.
fn reaches(volume: &PersistentVolume, node: &NodeInfo) -> bool {
    volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref())
        .and_then(|affinity| affinity.required.as_ref())
        .is_none_or(|selector| selects_node(selector, &node.name, node.labels()))
}
