//! What the cloud's storage sees of the cluster, and what follows from it: pure, with no clock and no
//! client. A volume exists while its PersistentVolume does, and is attached where a VolumeAttachment
//! says so; nothing else is remembered, so a restart begins with what is there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::settings::Settings;
use crate::CSI_DRIVER;

/// The label of nodes that says their zone, and the key of volumes' topologies.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The annotation of volumes that says who made them.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of claims that says who is to make their volume.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The annotation of claims that says for which node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Provider ids of this cloud's VMs begin with it.
const PROVIDER: &str = "fakecloud:///";

/// One thing to do. Each names an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Say that the driver exists.
    Driver,
    /// Say what a node can attach.
    Register(String),
    /// Make the volume of a claim (namespace, name).
    Provision(String, String),
    /// Remove a volume.
    Delete(String),
    /// Attach by an attachment.
    Attach(String),
    /// Detach by an attachment that is being deleted.
    Detach(String),
}

/// What a task comes to now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the CSIDriver.
    CreateDriver(Value),
    /// Create a CSINode.
    CreateNode(Value),
    /// Add the driver to a CSINode: its name and the patch.
    PatchNode(String, Value),
    /// Create a volume.
    CreateVolume(Value),
    /// Patch a claim (namespace, name): no volume can be made for its node.
    Reschedule(String, String, Value),
    /// Delete a volume of this uid.
    DeleteVolume(String, String),
    /// Patch an attachment.
    PatchAttachment(String, Value),
    /// Patch an attachment's status.
    AttachmentStatus(String, Value),
}

/// Whether the VM of a provider id runs; `None` for one that the cloud does not know.
pub type Runs<'a> = dyn Fn(&str) -> Option<bool> + 'a;

/// The cluster's objects that storage looks at.
#[derive(Debug, Default)]
pub struct World {
    /// Claims by namespace and name.
    pub claims: BTreeMap<(String, String), PersistentVolumeClaim>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, PersistentVolume>,
    /// Classes by name.
    pub classes: BTreeMap<String, StorageClass>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// CSI nodes by name.
    pub csi_nodes: BTreeMap<String, CSINode>,
    /// Attachments by name.
    pub attachments: BTreeMap<String, VolumeAttachment>,
    /// CSI drivers by name.
    pub drivers: BTreeMap<String, CSIDriver>,
    /// Delays and limits.
    pub settings: Settings,
}

impl World {
    /// Whether there is a reason for the task.
    pub fn wants(&self, task: &Task) -> bool {
        match task {
            Task::Driver => !self.drivers.contains_key(CSI_DRIVER),
            Task::Register(node) => self.wants_registration(node),
            Task::Provision(namespace, name) => self
                .claims
                .get(&(namespace.clone(), name.clone()))
                .is_some_and(|claim| self.wants_volume(claim)),
            Task::Delete(name) => self.volumes.get(name).is_some_and(|volume| self.wants_removal(volume)),
            Task::Attach(name) => self.attachments.get(name).is_some_and(|attachment| {
                let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
                is_ours(attachment) && attachment.metadata.deletion_timestamp.is_none() && !attached
            }),
            Task::Detach(name) => self.attachments.get(name).is_some_and(|attachment| {
                is_ours(attachment)
                    && attachment.metadata.deletion_timestamp.is_some()
                    && attachment
                        .finalizers()
                        .iter()
                        .any(|finalizer| *finalizer == this_finalizer())
            }),
        }
    }

    fn wants_registration(&self, name: &str) -> bool {
        let ours = self
            .nodes
            .get(name)
            .is_some_and(|node| provider_id(node).starts_with(PROVIDER));
        let known = self
            .csi_nodes
            .get(name)
            .is_some_and(|node| node.spec.drivers.iter().any(|driver| driver.name == CSI_DRIVER));
        ours && !known
    }

    fn wants_volume(&self, claim: &PersistentVolumeClaim) -> bool {
        let spec = claim.spec.as_ref();
        let has_volume = spec
            .and_then(|spec| spec.volume_name.as_deref())
            .is_some_and(|name| !name.is_empty());
        let asked = claim
            .annotations()
            .get(PROVISIONER)
            .is_some_and(|name| name == CSI_DRIVER);
        let made = self.volumes.contains_key(&name_for(claim));
        asked
            && !has_volume
            && !made
            && claim.metadata.deletion_timestamp.is_none()
            && self.class_of(claim).is_some_and(|class| {
                class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer")
                    || claim.annotations().contains_key(SELECTED_NODE)
            })
    }

    fn wants_removal(&self, volume: &PersistentVolume) -> bool {
        let spec = volume.spec.as_ref();
        let ours = volume
            .annotations()
            .get(PROVISIONED_BY)
            .is_some_and(|name| name == CSI_DRIVER);
        let released = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released");
        let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        ours && released
            && policy == Some("Delete")
            && volume.metadata.deletion_timestamp.is_none()
            && self.attachments_of(&volume.name_any()).next().is_none()
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        self.classes.get(claim.spec.as_ref()?.storage_class_name.as_ref()?)
    }

    fn attachments_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = &'a VolumeAttachment> {
        self.attachments
            .values()
            .filter(move |attachment| attachment.spec.source.persistent_volume_name.as_deref() == Some(volume))
    }

    /// What the task comes to; `None` when there is nothing to do about it any more.
    pub fn decide(&self, task: &Task, runs: &Runs<'_>) -> Option<Action> {
        if !self.wants(task) {
            return None;
        }
        match task {
            Task::Driver => Some(Action::CreateDriver(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": CSI_DRIVER },
                "spec": { "attachRequired": true, "podInfoOnMount": false },
            }))),
            Task::Register(name) => self.register(name),
            Task::Provision(namespace, name) => {
                let claim = self.claims.get(&(namespace.clone(), name.clone()))?;
                self.provision(claim)
            }
            Task::Delete(name) => {
                let uid = self.volumes.get(name)?.uid().unwrap_or_default();
                Some(Action::DeleteVolume(name.clone(), uid))
            }
            Task::Attach(name) => self.attach(self.attachments.get(name)?, runs),
            Task::Detach(name) => {
                let attachment = self.attachments.get(name)?;
                let mine = this_finalizer();
                let rest: Vec<&String> = attachment.finalizers().iter().filter(|name| **name != mine).collect();
                Some(Action::PatchAttachment(
                    name.clone(),
                    json!({ "metadata": {
                        "finalizers": rest, "resourceVersion": attachment.resource_version(),
                    } }),
                ))
            }
        }
    }

    fn register(&self, name: &str) -> Option<Action> {
        let node = self.nodes.get(name)?;
        let driver = json!({
            "name": CSI_DRIVER, "nodeID": provider_id(node), "topologyKeys": [ZONE],
            "allocatable": { "count": self.settings.volumes_per_node },
        });
        let Some(known) = self.csi_nodes.get(name) else {
            return Some(Action::CreateNode(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {
                    "name": name,
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid() }],
                },
                "spec": { "drivers": [driver] },
            })));
        };
        let mut drivers = serde_json::to_value(&known.spec.drivers).ok()?;
        drivers.as_array_mut()?.push(driver);
        let patch = json!({
            "metadata": { "resourceVersion": known.resource_version() },
            "spec": { "drivers": drivers },
        });
        Some(Action::PatchNode(name.to_owned(), patch))
    }

    /// Makes the volume in the zone of the claim's node, or in one that the class allows.
    fn provision(&self, claim: &PersistentVolumeClaim) -> Option<Action> {
        let class = self.class_of(claim)?;
        let zone = match claim.annotations().get(SELECTED_NODE) {
            Some(node) => match self.nodes.get(node) {
                Some(node) => node.labels().get(ZONE).cloned(),
                None => {
                    let patch = json!({ "metadata": {
                        "annotations": { SELECTED_NODE: null }, "resourceVersion": claim.resource_version(),
                    } });
                    let namespace = claim.namespace().unwrap_or_default();
                    return Some(Action::Reschedule(namespace, claim.name_any(), patch));
                }
            },
            None => self.zone_for(claim, class),
        };
        let spec = claim.spec.as_ref()?;
        let requests = spec.resources.as_ref()?.requests.as_ref()?;
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": name_for(claim), "annotations": { PROVISIONED_BY: CSI_DRIVER } },
            "spec": {
                "accessModes": spec.access_modes, "capacity": { "storage": requests.get("storage") },
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(),
                    "name": claim.name_any(), "uid": claim.uid(), "resourceVersion": claim.resource_version(),
                },
                "csi": {
                    "driver": CSI_DRIVER, "fsType": "ext4",
                    "volumeHandle": format!("vol-{}", claim.uid().unwrap_or_default()),
                },
                "mountOptions": class.mount_options,
                "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
                "storageClassName": class.name_any(), "volumeMode": spec.volume_mode,
            },
        });
        if let Some(zone) = zone {
            let expression = json!({ "key": ZONE, "operator": "In", "values": [zone] });
            volume["spec"]["nodeAffinity"] =
                json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } });
        }
        Some(Action::CreateVolume(volume))
    }

    /// A zone for a volume that no node was chosen for: claims take turns over the zones.
    fn zone_for(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<String> {
        let allowed: BTreeSet<&String> = class
            .allowed_topologies
            .iter()
            .flatten()
            .flat_map(|term| term.match_label_expressions.iter().flatten())
            .filter(|requirement| requirement.key == ZONE)
            .flat_map(|requirement| &requirement.values)
            .collect();
        let there: BTreeSet<&String> = self.nodes.values().filter_map(|node| node.labels().get(ZONE)).collect();
        let zones: Vec<&String> = if allowed.is_empty() { there } else { allowed }.into_iter().collect();
        let turn = claim.name_any().bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        zones.get(turn.checked_rem(zones.len())?).map(ToString::to_string)
    }

    fn attach(&self, attachment: &VolumeAttachment, runs: &Runs<'_>) -> Option<Action> {
        let name = attachment.name_any();
        if !attachment
            .finalizers()
            .iter()
            .any(|finalizer| *finalizer == this_finalizer())
        {
            let mut finalizers = attachment.finalizers().to_vec();
            finalizers.push(this_finalizer());
            return Some(Action::PatchAttachment(
                name,
                json!({ "metadata": {
                    "finalizers": finalizers, "resourceVersion": attachment.resource_version(),
                } }),
            ));
        }
        let status = match self.refusal(attachment, runs) {
            None => json!({ "attached": true, "attachError": null }),
            Some(why) => json!({ "attached": false, "attachError": { "message": why } }),
        };
        Some(Action::AttachmentStatus(name, json!({ "status": status })))
    }

    /// Why the cloud does not attach the volume, if it does not.
    fn refusal(&self, attachment: &VolumeAttachment, runs: &Runs<'_>) -> Option<String> {
        let name = attachment
            .spec
            .source
            .persistent_volume_name
            .as_deref()
            .unwrap_or_default();
        let Some(volume) = self.volumes.get(name) else {
            return Some(format!("volume {name:?} does not exist"));
        };
        let target = &attachment.spec.node_name;
        let Some(node) = self.nodes.get(target) else {
            return Some(format!("node {target:?} does not exist"));
        };
        match runs(provider_id(node)) {
            Some(true) => {}
            Some(false) => return Some(format!("the VM of node {target:?} does not run")),
            None if provider_id(node).starts_with(PROVIDER) => {
                return Some(format!("the VM of node {target:?} does not exist"));
            }
            None => {}
        }
        if let (Some(there), Some(here)) = (zone_of(volume), node.labels().get(ZONE))
            && there != here
        {
            return Some(format!(
                "volume {name:?} is in zone {there:?}, node {target:?} in {here:?}"
            ));
        }
        let attached = |other: &&VolumeAttachment| other.status.as_ref().is_some_and(|status| status.attached);
        let shared = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.access_modes.as_deref())
            .unwrap_or_default()
            .iter()
            .any(|mode| matches!(mode.as_str(), "ReadWriteMany" | "ReadOnlyMany"));
        if let Some(other) = self.attachments_of(name).filter(|_| !shared).find(attached) {
            let elsewhere = &other.spec.node_name;
            return Some(format!("volume {name:?} is attached to node {elsewhere:?}"));
        }
        let count = self
            .attachments
            .values()
            .filter(|other| is_ours(other) && other.spec.node_name == *target)
            .filter(attached)
            .count();
        (count >= self.settings.volumes_per_node as usize)
            .then(|| format!("node {target:?} has {count} volumes, which is the most it can have"))
    }
}

/// The finalizer by which the attacher keeps attachments until they are detached, as the sidecar
/// `external-attacher` writes it: dots are not allowed in it.
pub fn this_finalizer() -> String {
    format!("external-attacher/{}", CSI_DRIVER.replace('.', "-"))
}

fn is_ours(attachment: &VolumeAttachment) -> bool {
    attachment.spec.attacher == CSI_DRIVER
}

fn name_for(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

fn provider_id(node: &Node) -> &str {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

/// The zone that a volume of this cloud is in.
fn zone_of(volume: &PersistentVolume) -> Option<&String> {
    let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
    let mut expressions = required
        .node_selector_terms
        .iter()
        .flat_map(|term| term.match_expressions.iter().flatten());
    expressions
        .find(|expression| expression.key == ZONE)?
        .values
        .as_ref()?
        .first()
}
