//! Pod counts by topology domain for pod affinity, anti-affinity and spreading, computed once per placed pod.

use std::collections::BTreeMap;

use super::cluster::World;
use super::node::NodeInfo;
use super::pod::{PodInfo, Spread};
use super::reason::Reason;
use crate::matching::{selects_node, tolerated};
use quantity::Saturating as _;

/// The number of matching pods per value of a topology label.
type Counts = BTreeMap<(String, String), i64>;

/// The effect of existing pods on a pod to be placed.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Existing pods with anti-affinity to the new pod.
    repelling: Counts,
    /// The new pod's required affinity.
    near: Counts,
    /// The new pod's required anti-affinity.
    far: Counts,
    /// One per required spread constraint of the new pod.
    spread: Vec<SpreadCounts>,
}

#[derive(Clone, Debug)]
struct SpreadCounts {
    rule: Spread,
    domains: Domains,
}

/// Matching pods per value of the topology label. The minimum is needed for every node, so it is maintained.
#[derive(Clone, Debug, Default)]
struct Domains {
    pods: BTreeMap<String, i64>,
    /// The number of domains per pod count.
    having: BTreeMap<i64, usize>,
}

impl Domains {
    /// Adds an empty domain, unless it exists.
    fn open(&mut self, value: &str) {
        if !self.pods.contains_key(value) {
            self.pods.insert(value.to_owned(), 0);
            self.having.entry(0).or_default().raise(1);
        }
    }

    /// Changes the pod count of an existing domain.
    fn add(&mut self, value: &str, by: i64) {
        let Some(count) = self.pods.get_mut(value) else { return };
        let before = *count;
        count.raise(by);
        self.having.entry(*count).or_default().raise(1);
        if let Some(domains) = self.having.get_mut(&before) {
            domains.lower(1);
            if *domains == 0 {
                self.having.remove(&before);
            }
        }
    }

    /// The lowest pod count of a domain.
    fn least(&self) -> i64 {
        self.having.first_key_value().map_or(0, |(pods, _)| *pods)
    }
}

impl Topology {
    /// Counts over the whole cluster; free if no pod has terms or constraints.
    pub fn new(world: World<'_>, pod: &PodInfo) -> Self {
        let mut topology = Self {
            spread: pod
                .spread
                .iter()
                .filter(|rule| rule.required)
                .map(|rule| SpreadCounts {
                    rule: rule.clone(),
                    domains: Domains::default(),
                })
                .collect(),
            ..Self::default()
        };
        let own = !(pod.affinity.is_empty() && pod.anti_affinity.is_empty() && topology.spread.is_empty());
        if !own && !world.cluster.has_terms() {
            return topology;
        }
        for node in world.cluster.nodes() {
            topology.open_domains(pod, node);
            for other in node.pods.values() {
                if own || other.has_terms() {
                    topology.adjust(world, pod, other, node, 1);
                }
            }
        }
        topology
    }

    /// Every counted node adds a domain, even an empty one.
    fn open_domains(&mut self, pod: &PodInfo, node: &NodeInfo) {
        let labelled = self
            .spread
            .iter()
            .all(|counts| node.labels().contains_key(&counts.rule.topology_key));
        for counts in self.spread.iter_mut().filter(|_| labelled) {
            if let Some(value) = node.labels().get(&counts.rule.topology_key)
                && counts_node(&counts.rule, pod, node)
            {
                counts.domains.open(value);
            }
        }
    }

    /// Adds (`by` = 1) or removes (-1) a pod on a node.
    pub fn adjust(&mut self, world: World<'_>, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        let namespace = |pod: &PodInfo| world.namespace_labels(&pod.name.namespace);
        let add = |counts: &mut Counts, key: &str| {
            if let Some(value) = node.labels().get(key) {
                counts.entry((key.to_owned(), value.clone())).or_default().raise(by);
            }
        };
        for term in &other.anti_affinity {
            if term.selects(pod, namespace(pod)) {
                add(&mut self.repelling, &term.topology_key);
            }
        }
        if !pod.affinity.is_empty() && pod.affinity.iter().all(|term| term.selects(other, namespace(other))) {
            for term in &pod.affinity {
                add(&mut self.near, &term.topology_key);
            }
        }
        for term in &pod.anti_affinity {
            if term.selects(other, namespace(other)) {
                add(&mut self.far, &term.topology_key);
            }
        }
        if other.is_terminating() {
            return;
        }
        for counts in &mut self.spread {
            if counts.rule.counts(&pod.name.namespace, other)
                && let Some(value) = node.labels().get(&counts.rule.topology_key)
                && counts_node(&counts.rule, pod, node)
            {
                counts.domains.add(value, by);
            }
        }
    }

    /// Why spreading excludes the node; `None` if it does not.
    pub fn check_spread(&self, pod: &PodInfo, node: &NodeInfo) -> Option<Reason> {
        for counts in &self.spread {
            let Some(value) = node.labels().get(&counts.rule.topology_key) else {
                return Some(Reason::SpreadLabelMissing);
            };
            let domains = i64::try_from(counts.domains.pods.len()).unwrap_or(i64::MAX);
            let least = if domains < counts.rule.min_domains {
                0
            } else {
                counts.domains.least()
            };
            let itself = i64::from(counts.rule.counts(&pod.name.namespace, pod));
            let there = counts.domains.pods.get(value).copied().unwrap_or_default();
            if there.saturating_add(itself).saturating_sub(least) > counts.rule.max_skew {
                return Some(Reason::Spread);
            }
        }
        None
    }

    /// Why affinity excludes the node; `None` if it does not.
    pub fn check_affinity(&self, world: World<'_>, pod: &PodInfo, node: &NodeInfo) -> Option<Reason> {
        let count = |counts: &Counts, key: &str| {
            node.labels()
                .get(key)
                .and_then(|value| counts.get(&(key.to_owned(), value.clone())))
                .copied()
                .unwrap_or_default()
        };
        let near = pod
            .affinity
            .iter()
            .all(|term| count(&self.near, &term.topology_key) > 0);
        if !near && !self.is_first_of_its_kind(world, pod, node) {
            return Some(Reason::Affinity);
        }
        if pod
            .anti_affinity
            .iter()
            .any(|term| count(&self.far, &term.topology_key) > 0)
        {
            return Some(Reason::AntiAffinity);
        }
        let repelled = self
            .repelling
            .iter()
            .any(|((key, value), count)| *count > 0 && node.labels().get(key) == Some(value));
        repelled.then_some(Reason::ExistingAntiAffinity)
    }

    /// The first pod of a self-affine group may go anywhere.
    fn is_first_of_its_kind(&self, world: World<'_>, pod: &PodInfo, node: &NodeInfo) -> bool {
        let namespace = world.namespace_labels(&pod.name.namespace);
        self.near.values().all(|count| *count <= 0)
            && pod
                .affinity
                .iter()
                .all(|term| term.selects(pod, namespace) && node.labels().contains_key(&term.topology_key))
    }
}

/// Whether a constraint counts this node's pods.
pub fn counts_node(rule: &Spread, pod: &PodInfo, node: &NodeInfo) -> bool {
    let selected = || {
        let spec = pod.spec();
        let by_labels = spec
            .and_then(|spec| spec.node_selector.as_ref())
            .into_iter()
            .flatten()
            .all(|(key, value)| node.labels().get(key) == Some(value));
        by_labels && required_affinity(pod).is_none_or(|selector| selects_node(selector, &node.name, node.labels()))
    };
    let untainted = || {
        node.taints()
            .iter()
            .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
            .all(|taint| tolerated(taint, pod.tolerations()))
    };
    (!rule.honours_affinity || selected()) && (!rule.honours_taints || untainted())
}

/// The pod's required node affinity.
pub fn required_affinity(pod: &PodInfo) -> Option<&k8s_openapi::api::core::v1::NodeSelector> {
    pod.spec()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()
}
