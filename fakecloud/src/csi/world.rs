//! The storage's view of the cluster, and the resulting actions: pure, without clock and client. A volume exists while
//! its PersistentVolume does, and is attached where a VolumeAttachment requests it; no other state is stored, so a
//! restart continues with the existing objects.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::settings::Settings;
use crate::CSI_DRIVER;

/// The zone label of nodes, and the topology key of volumes.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The annotation of volumes with their provisioner.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of claims with the provisioner that must create their volume.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The annotation of claims with the selected node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Prefix of the provider IDs of this cloud's VMs.
const PROVIDER: &str = "fakecloud:///";

/// A task for an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Register the CSIDriver.
    Driver,
    /// Publish a node's limits and topology.
    Register(String),
    /// Create the volume of a claim (namespace, name).
    Provision(String, String),
    /// Delete a volume.
    Delete(String),
    /// Attach the volume of an attachment.
    Attach(String),
    /// Detach the volume of an attachment that is being deleted.
    Detach(String),
}

/// The action of a task.
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
    /// Patch a claim (namespace, name): its volume cannot be created for its node.
    Reschedule(String, String, Value),
    /// Delete a volume with this uid.
    DeleteVolume(String, String),
    /// Patch an attachment.
    PatchAttachment(String, Value),
    /// Patch an attachment's status.
    AttachmentStatus(String, Value),
}

/// Whether the VM with a provider ID runs; `None`: unknown to the cloud.
pub type Runs<'a> = dyn Fn(&str) -> Option<bool> + 'a;

/// The cluster's objects that are relevant for storage.
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
    /// Whether the task is needed.
    pub fn needs(&self, task: &Task) -> bool {
        match task {
            Task::Driver => !self.drivers.contains_key(CSI_DRIVER),
            Task::Register(node) => self.needs_registration(node),
            Task::Provision(namespace, name) => self
                .claims
                .get(&(namespace.clone(), name.clone()))
                .is_some_and(|claim| self.needs_volume(claim)),
            Task::Delete(name) => self.volumes.get(name).is_some_and(|volume| self.needs_removal(volume)),
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

    fn needs_registration(&self, name: &str) -> bool {
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

    fn needs_volume(&self, claim: &PersistentVolumeClaim) -> bool {
        let spec = claim.spec.as_ref();
        let has_volume = spec
            .and_then(|spec| spec.volume_name.as_deref())
            .is_some_and(|name| !name.is_empty());
        let provisioner = claim
            .annotations()
            .get(PROVISIONER)
            .is_some_and(|name| name == CSI_DRIVER);
        let exists = self.volumes.contains_key(&name_for(claim));
        provisioner
            && !has_volume
            && !exists
            && claim.metadata.deletion_timestamp.is_none()
            && self.class_of(claim).is_some_and(|class| {
                class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer")
                    || claim.annotations().contains_key(SELECTED_NODE)
            })
    }

    fn needs_removal(&self, volume: &PersistentVolume) -> bool {
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

    /// The action of the task; `None`: it is no longer needed.
    pub fn decide(&self, task: &Task, runs: &Runs<'_>) -> Option<Action> {
        if !self.needs(task) {
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

    /// Creates the volume in the zone of the claim's node, or in one that the class allows.
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

    /// A zone for a volume without a selected node: claims use the zones in turn.
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

    /// Why the cloud does not attach the volume; `None`: it does.
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
            .then(|| format!("node {target:?} has {count} volumes, which is its maximum"))
    }
}

/// The attacher's finalizer on attachments that are not detached, in the form of the sidecar `external-attacher`:
/// without dots.
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

/// The zone of a volume of this cloud.
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
