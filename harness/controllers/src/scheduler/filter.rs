//! Whether a node can take a pod, and why not. The order is kube-scheduler's, so that the reasons
//! it counts are the same.

use super::cluster::World;
use super::matching::{named_nodes, selects_node, tolerated};
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::resources::Amounts;
use super::storage::{self, PodVolumes};
use super::topology::{Topology, required_affinity};
use crate::foundation::ObjectKey;

/// The taint of a cordoned node.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Why a pod cannot be on a node, or on any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// A taint that the pod does not tolerate.
    Taint,
    /// The pod names other nodes.
    NotNamed,
    /// The pod's node selector or node affinity.
    NodeAffinity,
    /// A port of the node is taken.
    Ports,
    /// The node has as many pods as it may have.
    TooManyPods,
    /// Not enough of a resource is free.
    Insufficient {
        /// Its name.
        resource: String,
        /// Even the empty node has not enough.
        hopeless: bool,
    },
    /// Another pod uses a claim that only one may use.
    ClaimInUse,
    /// The node can attach no more volumes.
    VolumeLimit,
    /// A claim's volume does not exist.
    BoundVolumeMissing,
    /// A volume cannot be reached from the node.
    VolumeNodeAffinity,
    /// A claim that waits for its first consumer would get no volume on the node.
    NoVolumeToBind,
    /// A volume is in another zone.
    VolumeZone,
    /// The node lacks a label that the pod's spreading goes by.
    SpreadLabelMissing,
    /// The pod would make the spreading worse than it may be.
    Spread,
    /// A pod that must be near is not.
    Affinity,
    /// A pod that must not be near is.
    AntiAffinity,
    /// A pod that is near wants this one not to be.
    ExistingAntiAffinity,
    /// A claim does not exist.
    ClaimMissing(String),
    /// A claim of an ephemeral volume does not exist yet.
    EphemeralClaimMissing(String),
    /// A claim is being deleted.
    ClaimDeleting(String),
    /// A claim has lost its volume.
    ClaimLost {
        /// The claim.
        claim: String,
        /// The volume that is gone.
        volume: String,
    },
    /// A claim waits for nothing but has no volume.
    UnboundImmediateClaims,
}

/// What can make a pod schedulable that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node came or changed its labels, taints, or what it offers.
    Node,
    /// A node went, and with it a domain over which pods are spread.
    NodeGone,
    /// A pod that had a node is gone, or is going.
    PodGone,
    /// A pod got a node, or its labels changed.
    PodPlaced,
    /// A claim, volume, class, CSI node or attachment changed.
    Storage,
}

impl Reason {
    /// kube-scheduler's words.
    pub fn text(&self) -> String {
        let fixed = match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient { resource, .. } => return format!("Insufficient {resource}"),
            Self::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::BoundVolumeMissing => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::VolumeNodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolumeToBind => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::SpreadLabelMissing => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::ClaimMissing(claim) => return format!("persistentvolumeclaim {claim:?} not found"),
            Self::EphemeralClaimMissing(claim) => {
                return format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {claim:?}"
                );
            }
            Self::ClaimDeleting(claim) => return format!("persistentvolumeclaim {claim:?} is being deleted"),
            Self::ClaimLost { claim, volume } => {
                return format!("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}");
            }
            Self::UnboundImmediateClaims => "pod has unbound immediate PersistentVolumeClaims",
        };
        fixed.to_owned()
    }

    /// Whether the node might take the pod once other pods have left it.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Self::Ports
            | Self::TooManyPods
            | Self::ClaimInUse
            | Self::VolumeLimit
            | Self::Spread
            | Self::AntiAffinity
            | Self::ExistingAntiAffinity => true,
            Self::Insufficient { hopeless, .. } => !hopeless,
            _ => false,
        }
    }

    /// Whether a change can make the reason go away.
    pub fn is_helped_by(&self, change: Change) -> bool {
        match self {
            Self::Unschedulable | Self::Taint | Self::NodeAffinity | Self::NotNamed => change == Change::Node,
            Self::Ports | Self::TooManyPods | Self::Insufficient { .. } => {
                matches!(change, Change::Node | Change::PodGone)
            }
            Self::ClaimInUse => matches!(change, Change::PodGone | Change::Storage),
            Self::VolumeLimit => !matches!(change, Change::PodPlaced | Change::NodeGone),
            Self::VolumeNodeAffinity | Self::NoVolumeToBind | Self::VolumeZone => {
                matches!(change, Change::Node | Change::Storage)
            }
            Self::Spread => change != Change::Storage,
            Self::SpreadLabelMissing | Self::Affinity | Self::AntiAffinity | Self::ExistingAntiAffinity => {
                !matches!(change, Change::Storage | Change::NodeGone)
            }
            Self::BoundVolumeMissing
            | Self::ClaimMissing(_)
            | Self::EphemeralClaimMissing(_)
            | Self::ClaimDeleting(_)
            | Self::ClaimLost { .. }
            | Self::UnboundImmediateClaims => change == Change::Storage,
        }
    }
}

/// What was worked out about a pod before any node is looked at.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The pod's claims.
    pub volumes: PodVolumes,
    /// The pods that are there.
    pub topology: Topology,
    /// How many other pods use the pod's exclusive claims.
    pub exclusive_users: usize,
    named: Option<Vec<String>>,
}

impl Prepared {
    /// Prepares placing the pod; fails when no node could do.
    ///
    /// # Errors
    /// The reason that holds for all nodes.
    pub fn new(world: World<'_>, pod: &PodInfo) -> Result<Self, Reason> {
        let volumes = storage::of_pod(world.caches, pod)?;
        let exclusive_users = volumes
            .exclusive
            .iter()
            .map(|claim| world.cluster.users_of(claim))
            .sum();
        let named = required_affinity(pod)
            .and_then(named_nodes)
            .map(|names| names.into_iter().map(str::to_owned).collect());
        Ok(Self {
            volumes,
            topology: Topology::new(world, pod),
            exclusive_users,
            named,
        })
    }

    /// Counts a pod on a node in (`by` = 1) or out (-1).
    pub fn adjust(&mut self, world: World<'_>, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        self.topology.adjust(world, pod, other, node, by);
        let shared = other
            .claims
            .iter()
            .filter(|(claim, _)| {
                let name = ObjectKey::new(&other.name.namespace, claim);
                self.volumes.exclusive.contains(&name)
            })
            .count();
        self.exclusive_users = if by < 0 {
            self.exclusive_users.saturating_sub(shared)
        } else {
            self.exclusive_users + shared
        };
    }
}

/// Why the node cannot take the pod; empty when it can.
pub fn check(world: World<'_>, prepared: &Prepared, pod: &PodInfo, node: &NodeInfo) -> Vec<Reason> {
    if prepared.named.as_ref().is_some_and(|names| !names.contains(&node.name)) {
        return vec![Reason::NotNamed];
    }
    if let Some(reason) = check_node(pod, node) {
        return vec![reason];
    }
    if !pod.ports.is_empty() && node.has_port_conflict(&pod.ports) {
        return vec![Reason::Ports];
    }
    let missing = check_resources(pod, node);
    if !missing.is_empty() {
        return missing;
    }
    check_volumes(world, prepared, pod, node)
        .or_else(|| prepared.topology.check_spread(pod, node))
        .or_else(|| prepared.topology.check_affinity(world, pod, node))
        .into_iter()
        .collect()
}

fn check_node(pod: &PodInfo, node: &NodeInfo) -> Option<Reason> {
    if node.is_unschedulable() {
        let taint = k8s_openapi::api::core::v1::Taint {
            key: UNSCHEDULABLE_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Default::default()
        };
        if !tolerated(&taint, pod.tolerations()) {
            return Some(Reason::Unschedulable);
        }
    }
    let repels = |taint: &&k8s_openapi::api::core::v1::Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerated(taint, pod.tolerations())
    };
    if node.taints().iter().any(|taint| repels(&taint)) {
        return Some(Reason::Taint);
    }
    let labelled = pod
        .spec()
        .and_then(|spec| spec.node_selector.as_ref())
        .into_iter()
        .flatten()
        .all(|(key, value)| node.labels().get(key) == Some(value));
    let selected =
        labelled && required_affinity(pod).is_none_or(|selector| selects_node(selector, &node.name, node.labels()));
    (!selected).then_some(Reason::NodeAffinity)
}

fn check_resources(pod: &PodInfo, node: &NodeInfo) -> Vec<Reason> {
    let mut missing = Vec::new();
    let pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
    if pods + 1 > node.allowed_pods {
        missing.push(Reason::TooManyPods);
    }
    let mut compare = |resource: &str, wanted: i64, used: i64, offered: i64| {
        if wanted > 0 && wanted > offered - used {
            missing.push(Reason::Insufficient {
                resource: resource.to_owned(),
                hopeless: wanted > offered,
            });
        }
    };
    let (wanted, used, offered): (&Amounts, &Amounts, &Amounts) = (&pod.requests, &node.requested, &node.allocatable);
    compare("cpu", wanted.milli_cpu, used.milli_cpu, offered.milli_cpu);
    compare("memory", wanted.memory, used.memory, offered.memory);
    compare("ephemeral-storage", wanted.storage, used.storage, offered.storage);
    for (name, amount) in &wanted.others {
        compare(name, *amount, used.other(name), offered.other(name));
    }
    missing
}

fn check_volumes(world: World<'_>, prepared: &Prepared, pod: &PodInfo, node: &NodeInfo) -> Option<Reason> {
    if pod.claims.is_empty() {
        return None;
    }
    if prepared.exclusive_users > 0 {
        return Some(Reason::ClaimInUse);
    }
    if storage::exceeds_limits(world.caches, pod, node) {
        return Some(Reason::VolumeLimit);
    }
    if let Some(reason) = storage::check(world.caches, &prepared.volumes, node) {
        return Some(reason);
    }
    storage::is_in_other_zone(&prepared.volumes, node).then_some(Reason::VolumeZone)
}
