//! The scheduler's view of the cluster: nodes with their pods, and nominated pods. Updated object by object,
//! never rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::node::NodeInfo;
use super::pod::PodInfo;
use crate::foundation::{Caches, ObjectKey};
use crate::matching::Labels;
use quantity::Saturating as _;

/// The input for placing a pod.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// Nodes with their pods, including assumed ones.
    pub cluster: &'a Cluster,
    /// Volumes, disruption budgets and namespaces.
    pub caches: &'a Caches,
}

impl<'a> World<'a> {
    /// The labels of a namespace, if known.
    pub fn namespace_labels(self, name: &str) -> Option<&'a Labels> {
        self.caches
            .namespaces
            .get(&ObjectKey::cluster(name))
            .map(|namespace| namespace.labels())
    }
}

/// The cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeInfo>,
    /// The number of existing nodes.
    present: usize,
    /// The node of each pod.
    places: BTreeMap<ObjectKey, String>,
    /// The number of pods with affinity terms.
    pods_with_terms: usize,
    /// The number of pods that use each claim.
    users: BTreeMap<ObjectKey, usize>,
    /// Nominated pods, by node.
    nominated: BTreeMap<String, BTreeMap<ObjectKey, Arc<PodInfo>>>,
}

impl Cluster {
    /// The existing nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.values().filter(|node| node.node.is_some())
    }

    /// The number of existing nodes.
    pub fn node_count(&self) -> usize {
        self.present
    }

    /// An existing node.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.get(name).filter(|node| node.node.is_some())
    }

    /// Updates a node; returns whether a scheduling-relevant property changed.
    pub fn set_node(&mut self, node: Arc<Node>) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let info = self.nodes.entry(name.clone()).or_insert_with(|| NodeInfo::new(&name));
        let changed = match &info.node {
            None => {
                self.present.raise(1);
                true
            }
            Some(known) => matters(known, &node),
        };
        info.set_node(node);
        changed
    }

    /// Removes a node. Its pods stay until they are deleted.
    pub fn remove_node(&mut self, name: &str) {
        let Some(info) = self.nodes.get_mut(name) else { return };
        if info.node.take().is_some() {
            self.present.lower(1);
        }
        if info.pods.is_empty() {
            self.nodes.remove(name);
        }
    }

    /// Assigns a pod to a node, or updates it there.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.unplace(&pod.name);
        self.withdraw(&pod.name);
        self.pods_with_terms.raise(usize::from(pod.has_terms()));
        for (claim, _) in &pod.claims {
            let claim = ObjectKey::new(&pod.name.namespace, claim);
            self.users.entry(claim).or_default().raise(1);
        }
        self.places.insert(pod.name.clone(), node.to_owned());
        self.nodes
            .entry(node.to_owned())
            .or_insert_with(|| NodeInfo::new(node))
            .add(pod);
    }

    /// Removes a pod from its node; returns both.
    pub fn unplace(&mut self, name: &ObjectKey) -> Option<(String, Arc<PodInfo>)> {
        let node = self.places.remove(name)?;
        let info = self.nodes.get_mut(&node)?;
        let pod = info.remove(name)?;
        if info.pods.is_empty() && info.node.is_none() {
            self.nodes.remove(&node);
        }
        self.pods_with_terms.lower(usize::from(pod.has_terms()));
        for (claim, _) in &pod.claims {
            let claim = ObjectKey::new(&pod.name.namespace, claim);
            if let Some(count) = self.users.get_mut(&claim) {
                count.lower(1);
                if *count == 0 {
                    self.users.remove(&claim);
                }
            }
        }
        Some((node, pod))
    }

    /// The pod with this name and its node.
    pub fn placed(&self, name: &ObjectKey) -> Option<(&str, &Arc<PodInfo>)> {
        let node = self.places.get(name)?;
        let pod = self.nodes.get(node)?.pods.get(name)?;
        Some((node, pod))
    }

    /// Whether the pod's newest version changes nothing relevant.
    pub fn is_placed_same(&self, name: &ObjectKey, pod: &Pod, node: &str) -> bool {
        self.placed(name)
            .is_some_and(|(place, known)| place == node && known.is_same(pod))
    }

    /// Reserves room on a node for a pod whose victims are terminating.
    pub fn nominate(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.withdraw(&pod.name);
        self.nominated
            .entry(node.to_owned())
            .or_default()
            .insert(pod.name.clone(), pod);
    }

    /// Releases the room reserved for a pod.
    pub fn withdraw(&mut self, name: &ObjectKey) {
        self.nominated.retain(|_, pods| {
            pods.remove(name);
            !pods.is_empty()
        });
    }

    /// The pods with reserved room on a node.
    pub fn nominated(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.nominated.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether any pod on a node has affinity terms.
    pub fn has_terms(&self) -> bool {
        self.pods_with_terms > 0
    }

    /// The number of pods on nodes that use a claim.
    pub fn users_of(&self, claim: &ObjectKey) -> usize {
        self.users.get(claim).copied().unwrap_or_default()
    }
}

/// Whether two versions of a node differ in a scheduling-relevant property.
fn matters(old: &Node, new: &Node) -> bool {
    let spec = |node: &Node| {
        let spec = node.spec.clone().unwrap_or_default();
        (spec.taints.unwrap_or_default(), spec.unschedulable.unwrap_or_default())
    };
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.metadata.labels != new.metadata.labels || spec(old) != spec(new) || allocatable(old) != allocatable(new)
}
