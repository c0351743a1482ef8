//! Pods that are near: counts by topology for pod affinity, anti-affinity and spreading, made once
//! for each pod that is placed.

use std::collections::BTreeMap;

use super::cluster::World;
use super::node::NodeInfo;
use super::pod::{PodInfo, Spread};
use super::reason::Reason;
use crate::matching::{selects_node, tolerated};

/// How many matching pods each value of a topology label has.
type Counts = BTreeMap<(String, String), i64>;

/// What the pods that are there mean for one that is to be placed.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Pods there that want to be far from the new one.
    repelling: Counts,
    /// Pods that the new one must be near.
    near: Counts,
    /// Pods that the new one must not be near.
    far: Counts,
    /// One for each required spread rule of the new pod.
    spread: Vec<SpreadCounts>,
}

#[derive(Clone, Debug)]
struct SpreadCounts {
    rule: Spread,
    domains: Domains,
}

/// Matching pods by the topology label's value. The least of them is asked for once a node, so it is kept at hand.
#[derive(Clone, Debug, Default)]
struct Domains {
    pods: BTreeMap<String, i64>,
    /// How many domains have so many pods.
    having: BTreeMap<i64, usize>,
}

impl Domains {
    /// A domain without pods, unless it is there.
    fn open(&mut self, value: &str) {
        if !self.pods.contains_key(value) {
            self.pods.insert(value.to_owned(), 0);
            *self.having.entry(0).or_default() += 1;
        }
    }

    /// Counts pods of a domain that is open.
    fn add(&mut self, value: &str, by: i64) {
        let Some(count) = self.pods.get_mut(value) else { return };
        let before = std::mem::replace(count, *count + by);
        *self.having.entry(before + by).or_default() += 1;
        if let Some(domains) = self.having.get_mut(&before) {
            *domains -= 1;
            if *domains == 0 {
                self.having.remove(&before);
            }
        }
    }

    /// The pods of the domain that has the fewest.
    fn least(&self) -> i64 {
        self.having.first_key_value().map_or(0, |(pods, _)| *pods)
    }
}

impl Topology {
    /// Counts over the whole cluster. Costs nothing where neither side has rules.
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

    /// Every node that counts makes a domain, be it empty.
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

    /// Counts a pod on a node in (`by` = 1) or out (-1).
    pub fn adjust(&mut self, world: World<'_>, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        let namespace = |pod: &PodInfo| world.namespace_labels(&pod.name.namespace);
        let add = |counts: &mut Counts, key: &str| {
            if let Some(value) = node.labels().get(key) {
                *counts.entry((key.to_owned(), value.clone())).or_default() += by;
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

    /// Why spreading keeps the pod off the node, if it does.
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
            if there + itself - least > counts.rule.max_skew {
                return Some(Reason::Spread);
            }
        }
        None
    }

    /// Why other pods keep the pod off the node, if they do.
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

    /// The first pod of a group that wants to be together may be anywhere.
    fn is_first_of_its_kind(&self, world: World<'_>, pod: &PodInfo, node: &NodeInfo) -> bool {
        let namespace = world.namespace_labels(&pod.name.namespace);
        self.near.values().all(|count| *count <= 0)
            && pod
                .affinity
                .iter()
                .all(|term| term.selects(pod, namespace) && node.labels().contains_key(&term.topology_key))
    }
}

/// Whether a rule looks at this node's pods at all.
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

/// The node affinity that a pod demands.
pub fn required_affinity(pod: &PodInfo) -> Option<&k8s_openapi::api::core::v1::NodeSelector> {
    pod.spec()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()
}
