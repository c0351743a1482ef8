//! A node with the totals over its pods, updated pod by pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;

use super::pod::{HostPort, PodInfo};
use super::resources::Amounts;
use crate::foundation::ObjectKey;
use crate::matching::Labels;
use quantity::Saturating as _;

/// A node and its pods.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// The node's name.
    pub name: String,
    /// The node object; `None` while only pods on it are known.
    pub node: Option<Arc<Node>>,
    /// The allocatable resources.
    pub allocatable: Amounts,
    /// The maximum number of pods.
    pub allowed_pods: i64,
    /// The sum of the pods' requests.
    pub requested: Amounts,
    /// The sum of the pods' requests for scoring: CPU and memory.
    pub scored: [i64; 2],
    /// Its pods, except finished ones.
    pub pods: BTreeMap<ObjectKey, Arc<PodInfo>>,
    /// The number of its pods that mount each claim.
    pub claims: BTreeMap<ObjectKey, u32>,
    ports: BTreeMap<HostPort, u32>,
    /// The number of its pods with affinity terms.
    pub pods_with_terms: u32,
}

impl NodeInfo {
    /// A node of which only the name is known.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Updates the node object.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let list = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        self.allocatable = list.map(Amounts::of).unwrap_or_default();
        self.allowed_pods = list
            .and_then(|list| list.get("pods"))
            .map(crate::amounts::whole)
            .unwrap_or_default();
        self.node = Some(node);
    }

    /// Adds a pod.
    pub fn add(&mut self, pod: Arc<PodInfo>) {
        self.remove(&pod.name);
        add_requests(&mut self.requested, &mut self.scored, &pod);
        for port in &pod.ports {
            self.ports.entry(port.clone()).or_default().raise(1);
        }
        for (claim, _) in &pod.claims {
            let claim = ObjectKey::new(&pod.name.namespace, claim);
            self.claims.entry(claim).or_default().raise(1);
        }
        self.pods_with_terms.raise(u32::from(pod.has_terms()));
        self.pods.insert(pod.name.clone(), pod);
    }

    /// Removes a pod.
    pub fn remove(&mut self, name: &ObjectKey) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(name)?;
        // Not by subtraction, which is wrong for sums that stopped at their limit.
        (self.requested, self.scored) = Default::default();
        for other in self.pods.values() {
            add_requests(&mut self.requested, &mut self.scored, other);
        }
        for port in &pod.ports {
            count_down(&mut self.ports, port);
        }
        for (claim, _) in &pod.claims {
            count_down(&mut self.claims, &ObjectKey::new(&pod.name.namespace, claim));
        }
        self.pods_with_terms.lower(u32::from(pod.has_terms()));
        Some(pod)
    }

    /// The node's labels.
    pub fn labels(&self) -> &Labels {
        static NONE: Labels = Labels::new();
        self.node.as_ref().map_or(&NONE, |node| node.labels())
    }

    /// The node's taints.
    pub fn taints(&self) -> &[Taint] {
        self.node
            .as_ref()
            .and_then(|node| node.spec.as_ref())
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default()
    }

    /// Whether the node is cordoned.
    pub fn is_unschedulable(&self) -> bool {
        self.node
            .as_ref()
            .and_then(|node| node.spec.as_ref())
            .and_then(|spec| spec.unschedulable)
            .unwrap_or_default()
    }

    /// Whether one of these ports is in use.
    pub fn has_port_conflict(&self, ports: &[HostPort]) -> bool {
        ports
            .iter()
            .any(|port| self.ports.keys().any(|taken| taken.conflicts(port)))
    }
}

fn add_requests(requested: &mut Amounts, scored: &mut [i64; 2], pod: &PodInfo) {
    requested.add(&pod.requests);
    for (sum, part) in scored.iter_mut().zip(pod.scored) {
        sum.raise(part);
    }
}

fn count_down<K: Ord + Clone>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        count.lower(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, memory: &str) -> Arc<PodInfo> {
        let container = json!({ "name": "c", "resources": { "requests": {
            "memory": memory, "ephemeral-storage": memory, "example.com/gpu": memory,
        } } });
        let pod = json!({
            "metadata": { "name": name, "namespace": "n" },
            "spec": { "containers": [container] },
        });
        Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
    }

    #[test]
    fn sums_beyond_the_limit_are_right_after_a_removal() {
        let mut node = NodeInfo::new("n");
        let small = pod("small", "1Gi");
        node.add(Arc::clone(&small));
        let (requested, scored) = (node.requested.clone(), node.scored);
        let large = pod("large", "9223372036854775807");
        node.add(Arc::clone(&large));
        node.add(Arc::clone(&large));
        assert_eq!((node.requested.memory, node.scored[1]), (i64::MAX, i64::MAX));
        node.remove(&large.name);
        assert_eq!((&node.requested, node.scored), (&requested, scored));
        node.remove(&small.name);
        assert_eq!((node.requested, node.scored), (Amounts::default(), [0, 0]));
    }
}
