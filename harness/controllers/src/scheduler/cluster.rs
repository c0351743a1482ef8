//! The cluster as the scheduler sees it: nodes with what is on them, and pods for which room is
//! being made. Kept up to date object by object, never rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::node::NodeInfo;
use super::pod::PodInfo;
use crate::foundation::{Caches, ObjectKey};
use crate::matching::Labels;

/// What placing a pod looks at.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// Nodes with what is on them, bindings that are under way included.
    pub cluster: &'a Cluster,
    /// Volumes, disruption budgets and namespaces.
    pub caches: &'a Caches,
}

impl<'a> World<'a> {
    /// The labels of a namespace, if it is known.
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
    /// How many nodes really exist.
    present: usize,
    /// Where each pod is.
    places: BTreeMap<ObjectKey, String>,
    /// How many pods there are with rules about pods near them.
    pods_with_terms: usize,
    /// How many pods use each claim.
    users: BTreeMap<ObjectKey, usize>,
    /// Pods for which room is being made, by node.
    nominated: BTreeMap<String, BTreeMap<ObjectKey, Arc<PodInfo>>>,
}

impl Cluster {
    /// The nodes that exist, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.values().filter(|node| node.node.is_some())
    }

    /// How many nodes exist.
    pub fn node_count(&self) -> usize {
        self.present
    }

    /// One node that exists.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.get(name).filter(|node| node.node.is_some())
    }

    /// Takes over a node's newest version; tells whether anything changed that matters to pods.
    pub fn set_node(&mut self, node: Arc<Node>) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let info = self.nodes.entry(name.clone()).or_insert_with(|| NodeInfo::new(&name));
        let changed = match &info.node {
            None => {
                self.present += 1;
                true
            }
            Some(known) => matters(known, &node),
        };
        info.set_node(node);
        changed
    }

    /// Forgets a node. Its pods stay known until they go.
    pub fn remove_node(&mut self, name: &str) {
        let Some(info) = self.nodes.get_mut(name) else { return };
        if info.node.take().is_some() {
            self.present -= 1;
        }
        if info.pods.is_empty() {
            self.nodes.remove(name);
        }
    }

    /// Puts a pod on a node, or replaces its older version there.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.unplace(&pod.name);
        self.withdraw(&pod.name);
        self.pods_with_terms += usize::from(pod.has_terms());
        for (claim, _) in &pod.claims {
            *self
                .users
                .entry(ObjectKey::new(&pod.name.namespace, claim))
                .or_default() += 1;
        }
        self.places.insert(pod.name.clone(), node.to_owned());
        self.nodes
            .entry(node.to_owned())
            .or_insert_with(|| NodeInfo::new(node))
            .add(pod);
    }

    /// Takes a pod off its node; tells which it was.
    pub fn unplace(&mut self, name: &ObjectKey) -> Option<(String, Arc<PodInfo>)> {
        let node = self.places.remove(name)?;
        let info = self.nodes.get_mut(&node)?;
        let pod = info.remove(name)?;
        if info.pods.is_empty() && info.node.is_none() {
            self.nodes.remove(&node);
        }
        self.pods_with_terms -= usize::from(pod.has_terms());
        for (claim, _) in &pod.claims {
            let claim = ObjectKey::new(&pod.name.namespace, claim);
            if let Some(count) = self.users.get_mut(&claim) {
                *count -= 1;
                if *count == 0 {
                    self.users.remove(&claim);
                }
            }
        }
        Some((node, pod))
    }

    /// The pod of that name and where it is.
    pub fn placed(&self, name: &ObjectKey) -> Option<(&str, &Arc<PodInfo>)> {
        let node = self.places.get(name)?;
        let pod = self.nodes.get(node)?.pods.get(name)?;
        Some((node, pod))
    }

    /// Whether the pod's newest version changes nothing.
    pub fn is_placed_same(&self, name: &ObjectKey, pod: &Pod, node: &str) -> bool {
        self.placed(name)
            .is_some_and(|(place, known)| place == node && known.is_same(pod))
    }

    /// Keeps room on a node for a pod whose victims are going.
    pub fn nominate(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.withdraw(&pod.name);
        self.nominated
            .entry(node.to_owned())
            .or_default()
            .insert(pod.name.clone(), pod);
    }

    /// Keeps room for a pod no longer.
    pub fn withdraw(&mut self, name: &ObjectKey) {
        self.nominated.retain(|_, pods| {
            pods.remove(name);
            !pods.is_empty()
        });
    }

    /// The pods for which room is kept on a node.
    pub fn nominated(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.nominated.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether any pod that has a node has rules about pods near it.
    pub fn has_terms(&self) -> bool {
        self.pods_with_terms > 0
    }

    /// How many pods that have a node use a claim.
    pub fn users_of(&self, claim: &ObjectKey) -> usize {
        self.users.get(claim).copied().unwrap_or_default()
    }
}

/// Whether two versions of a node differ in what scheduling looks at.
fn matters(old: &Node, new: &Node) -> bool {
    let spec = |node: &Node| {
        let spec = node.spec.clone().unwrap_or_default();
        (spec.taints.unwrap_or_default(), spec.unschedulable.unwrap_or_default())
    };
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.metadata.labels != new.metadata.labels || spec(old) != spec(new) || allocatable(old) != allocatable(new)
}
