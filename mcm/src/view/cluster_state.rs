//! What this process knows of both clusters: one cache for each watched kind, with its indexes, and what it remembers beside.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use mcm_api::{Machine, MachineClass, MachineDeployment, MachineSet, keys};
use mcm_core::ownership::controller;

use super::work::EnabledControllers;
use crate::cache::{Cache, Key};
use crate::memory::{Drains, Guard, PendingSetWrites};

/// Position of the machines' index by label `node`.
const BY_NODE: usize = 0;
/// Position of the machines' index by label `name`, their deployment.
const BY_DEPLOYMENT: usize = 1;
/// Position of the machines' index by the name of their class.
const BY_CLASS: usize = 2;
/// Position of the machines' index by the uid of their controller, empty for orphans.
pub(super) const BY_OWNER: usize = 3;
/// The only index of the other kinds: Nodes by their machine; pods and attachments by their Node.
const FIRST: usize = 0;
/// Position of the attachments' index by PersistentVolume.
const BY_VOLUME: usize = 1;

/// All that is watched. Clones share the caches.
#[derive(Clone, Debug)]
pub(crate) struct ClusterState {
    pub(crate) namespace: String,
    pub(crate) machines: Cache<Machine>,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) secrets: Cache<Secret>,
    pub(crate) sets: Cache<MachineSet>,
    pub(crate) deployments: Cache<MachineDeployment>,
    pub(crate) enabled: EnabledControllers,
    pub(crate) target: Option<TargetState>,
    /// Notified of changes that may orphan VMs.
    pub(crate) guard: Guard,
    pub(crate) drains: Drains,
    pub(crate) pending_set_writes: PendingSetWrites,
}

/// What is watched in the cluster that nodes join.
#[derive(Clone, Debug)]
pub(crate) struct TargetState {
    pub(crate) nodes: Cache<Node>,
    pub(super) pods: Cache<Pod>,
    pub(super) attachments: Cache<VolumeAttachment>,
    pub(crate) claims: Cache<PersistentVolumeClaim>,
    pub(crate) volumes: Cache<PersistentVolume>,
    pub(crate) budgets: Cache<PodDisruptionBudget>,
}

impl ClusterState {
    pub(crate) fn new(namespace: &str, with_target: bool, enabled: EnabledControllers) -> Self {
        Self {
            namespace: namespace.to_owned(),
            machines: Cache::<Machine>::new(&[
                |machine| machine.labels().get(keys::NODE_LABEL).cloned(),
                |machine| machine.labels().get(keys::DEPLOYMENT_LABEL).cloned(),
                |machine| Some(machine.spec.class.name.clone()),
                |machine| Some(owner_uid(&machine.metadata)),
            ])
            .remembering_own(),
            sets: Cache::<MachineSet>::new(&[|set| Some(owner_uid(&set.metadata))]).remembering_own(),
            deployments: Cache::<MachineDeployment>::new(&[]).remembering_own(),
            enabled,
            classes: Cache::new(&[]),
            secrets: Cache::new(&[]),
            guard: Guard::default(),
            drains: Drains::default(),
            pending_set_writes: PendingSetWrites::default(),
            target: with_target.then(|| TargetState {
                nodes: Cache::<Node>::new(&[|node| node.labels().get(keys::MACHINE_NAME_LABEL).cloned()])
                    .remembering_gone()
                    .remembering_own(),
                pods: Cache::new(&[|pod| pod.spec.as_ref()?.node_name.clone()]),
                attachments: Cache::new(&[
                    |attachment| Some(attachment.spec.node_name.clone()),
                    |attachment| attachment.spec.source.persistent_volume_name.clone(),
                ]),
                claims: Cache::new(&[]),
                volumes: Cache::new(&[]),
                budgets: Cache::new(&[|budget| budget.namespace()]),
            }),
        }
    }

    /// Whether every first list is complete; before that nothing is decided.
    pub(crate) fn synced(&self) -> bool {
        let control = self.machines.synced() && self.classes.synced() && self.secrets.synced();
        let owners = !self.enabled.owners() || self.sets.synced() && self.deployments.synced();
        control && owners && self.target.as_ref().is_none_or(TargetState::synced)
    }

    pub(crate) fn machines_of_deployment(&self, deployment: &str) -> Vec<Arc<Machine>> {
        self.machines.find(BY_DEPLOYMENT, deployment)
    }

    /// The provider of the machine's class; empty where that is not known.
    pub(crate) fn provider_of(&self, machine: &Machine) -> String {
        let class = self.classes.get(&Key::new(&self.namespace, &machine.spec.class.name));
        class.and_then(|class| class.provider.clone()).unwrap_or_default()
    }

    /// The machines whose label `node` names it.
    pub(crate) fn machines_of_node(&self, node: &str) -> Vec<Arc<Machine>> {
        self.machines.find(BY_NODE, node)
    }

    pub(crate) fn machines_of_class(&self, class: &str) -> Vec<Arc<Machine>> {
        self.machines.find(BY_CLASS, class)
    }
}

impl TargetState {
    fn synced(&self) -> bool {
        let watched = self.nodes.synced() && self.pods.synced() && self.attachments.synced();
        watched && self.claims.synced() && self.volumes.synced() && self.budgets.synced()
    }

    /// The Nodes whose label says that they are this machine's.
    pub(crate) fn nodes_labelled(&self, machine: &str) -> Vec<Arc<Node>> {
        self.nodes.find(FIRST, machine)
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.find(FIRST, node)
    }

    pub(crate) fn attachments_of(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.find(FIRST, node)
    }

    pub(crate) fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.find(BY_VOLUME, volume)
    }

    pub(crate) fn budgets_in(&self, namespace: &str) -> Vec<Arc<PodDisruptionBudget>> {
        self.budgets.find(FIRST, namespace)
    }
}

/// The uid of the controller; empty for orphans.
fn owner_uid(metadata: &ObjectMeta) -> String {
    controller(metadata)
        .map(|reference| reference.uid.clone())
        .unwrap_or_default()
}
