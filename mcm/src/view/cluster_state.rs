//! The observed state of both clusters: one cache with indexes for each watched kind, and state beyond the caches.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use mcm_api::{Machine, MachineClass, MachineDeployment, MachineHealthCheck, MachineSet};

use super::indexes::{AttachmentIndex, BudgetIndex, MachineIndex, NodeIndex, PodIndex};
use super::work::EnabledControllers;
use crate::cache::{AnyCache, Cache, Key};
use crate::memory::{Connection, Drains, Guard, PendingSetWrites, RequestedDeletions};

/// The caches of all watched kinds. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ClusterState {
    pub(crate) namespace: String,
    pub(crate) machines: Cache<Machine>,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) secrets: Cache<Secret>,
    pub(crate) sets: Cache<MachineSet>,
    pub(crate) deployments: Cache<MachineDeployment>,
    pub(crate) health_checks: Cache<MachineHealthCheck>,
    pub(crate) enabled: EnabledControllers,
    pub(crate) target: Option<TargetState>,
    /// Notified of changes that may orphan VMs.
    pub(crate) guard: Guard,
    /// The connection to the clusters, as health checks see it.
    pub(crate) connection: Connection,
    pub(crate) drains: Drains,
    pub(crate) pending_set_writes: PendingSetWrites,
    pub(crate) requested_deletions: RequestedDeletions,
}

/// The caches of the target cluster.
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
    /// The state of a process that becomes the leader `since`.
    pub(crate) fn new(namespace: &str, with_target: bool, enabled: EnabledControllers, since: Timestamp) -> Self {
        Self {
            namespace: namespace.to_owned(),
            machines: Cache::new().tracking_own_changes(),
            sets: Cache::new().tracking_own_changes(),
            deployments: Cache::new().tracking_own_changes(),
            health_checks: Cache::new(),
            enabled,
            classes: Cache::new(),
            secrets: Cache::new(),
            guard: Guard::default(),
            connection: Connection::default(),
            drains: Drains::default(),
            pending_set_writes: PendingSetWrites::default(),
            requested_deletions: RequestedDeletions::new(since),
            target: with_target.then(|| TargetState {
                nodes: Cache::new()
                    .tracking_deletions()
                    .tracking_own_changes()
                    .tracking_names(),
                pods: Cache::new(),
                attachments: Cache::new(),
                claims: Cache::new(),
                volumes: Cache::new(),
                budgets: Cache::new(),
            }),
        }
    }

    /// Whether every first list is complete; before that no decision is made.
    pub(crate) fn synced(&self) -> bool {
        self.unfilled().is_empty()
    }

    /// The number of objects of each kind that cannot be decoded completely.
    pub(crate) fn damaged(&self) -> Vec<(&'static str, usize)> {
        self.of_each_kind(|cache| cache.damaged_count())
    }

    /// The watched kinds whose first list is not complete.
    pub(crate) fn unfilled(&self) -> Vec<&'static str> {
        let mut kinds = self.of_each_kind(|cache| cache.synced());
        kinds.retain(|(_, synced)| !synced);
        kinds.into_iter().map(|(kind, _)| kind).collect()
    }

    fn of_each_kind<T>(&self, value: impl Fn(&dyn AnyCache) -> T) -> Vec<(&'static str, T)> {
        let mut caches: Vec<(&'static str, &dyn AnyCache)> = vec![("Machine", &self.machines)];
        if self.enabled.only_health_checks() {
            caches.push(("MachineHealthCheck", &self.health_checks));
            if let Some(target) = &self.target {
                caches.push(("Node", &target.nodes));
            }
            return caches.into_iter().map(|(kind, cache)| (kind, value(cache))).collect();
        }
        caches.extend([
            ("MachineClass", &self.classes as &dyn AnyCache),
            ("Secret", &self.secrets),
        ]);
        if self.enabled.health_checks {
            caches.push(("MachineHealthCheck", &self.health_checks));
        }
        if self.enabled.owners() {
            caches.push(("MachineSet", &self.sets));
            caches.push(("MachineDeployment", &self.deployments));
        }
        if let Some(target) = &self.target {
            caches.extend(target.caches());
        }
        caches.into_iter().map(|(kind, cache)| (kind, value(cache))).collect()
    }

    pub(crate) fn machines_of_deployment(&self, deployment: &str) -> Vec<Arc<Machine>> {
        self.machines.find(MachineIndex::Deployment, deployment)
    }

    /// The provider of the machine's class; empty if unknown.
    pub(crate) fn provider_of(&self, machine: &Machine) -> String {
        let class = self.classes.get(&Key::new(&self.namespace, &machine.spec.class.name));
        class.and_then(|class| class.provider.clone()).unwrap_or_default()
    }

    /// The machines whose label `node` has this value.
    pub(crate) fn machines_of_node(&self, node: &str) -> Vec<Arc<Machine>> {
        self.machines.find(MachineIndex::Node, node)
    }

    pub(crate) fn machines_of_class(&self, class: &str) -> Vec<Arc<Machine>> {
        self.machines.find(MachineIndex::Class, class)
    }
}

impl TargetState {
    fn caches(&self) -> [(&'static str, &dyn AnyCache); 6] {
        [
            ("Node", &self.nodes),
            ("Pod", &self.pods),
            ("VolumeAttachment", &self.attachments),
            ("PersistentVolumeClaim", &self.claims),
            ("PersistentVolume", &self.volumes),
            ("PodDisruptionBudget", &self.budgets),
        ]
    }

    /// The Nodes whose label references this machine.
    pub(crate) fn nodes_labelled(&self, machine: &str) -> Vec<Arc<Node>> {
        self.nodes.find(NodeIndex::Machine, machine)
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.find(PodIndex::Node, node)
    }

    pub(crate) fn attachments_of(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.find(AttachmentIndex::Node, node)
    }

    pub(crate) fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.find(AttachmentIndex::Volume, volume)
    }

    pub(crate) fn budgets_in(&self, namespace: &str) -> Vec<Arc<PodDisruptionBudget>> {
        self.budgets.find(BudgetIndex::Namespace, namespace)
    }
}
