//! Filters: whether a node can run a pod, and the reasons if not. The order is kube-scheduler's, so that the
//! counted reasons are the same.

use super::cluster::World;
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::reason::Reason;
use super::resources::Amounts;
use super::storage::{self, PodVolumes};
use super::topology::{Topology, required_affinity};
use crate::foundation::ObjectKey;
use crate::matching::{named_nodes, selects_node, tolerated};

/// The taint of a cordoned node.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// The properties of a pod that are computed once for all nodes.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The pod's claims.
    pub volumes: PodVolumes,
    /// Counts of existing pods by topology.
    pub topology: Topology,
    /// How many other pods use the pod's ReadWriteOncePod claims.
    pub exclusive_users: usize,
    named: Option<Vec<String>>,
}

impl Prepared {
    /// Prepares placing the pod; fails when no node can fit.
    ///
    /// # Errors
    /// The reason that applies to all nodes.
    pub fn new(world: World<'_>, pod: &PodInfo) -> Result<Self, Reason> {
        let volumes = storage::of_pod(world.caches, pod)?;
        let exclusive = volumes.exclusive.iter();
        let exclusive_users = quantity::total(exclusive.map(|claim| world.cluster.users_of(claim)));
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

    /// Adds (`by` = 1) or removes (-1) a pod on a node.
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
            self.exclusive_users.saturating_add(shared)
        };
    }
}

/// Why the node cannot run the pod; empty if it can.
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
    if pods.saturating_add(1) > node.allowed_pods {
        missing.push(Reason::TooManyPods);
    }
    let mut compare = |resource: &str, wanted: i64, used: i64, offered: i64| {
        if wanted > 0 && wanted > offered.saturating_sub(used) {
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
