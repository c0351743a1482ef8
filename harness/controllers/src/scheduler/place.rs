//! Finds the node for one pod, or the reasons why no node fits.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::World;
use super::filter::{Prepared, check};
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::reason::{Change, Reason};
use super::score;
use super::storage::{self, Binding};
use quantity::Saturating as _;

/// A chosen node.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The node.
    pub node: String,
    /// The bindings that its claims need first.
    pub bindings: Vec<Binding>,
}

/// Why a pod is unschedulable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The number of nodes.
    pub nodes: usize,
    /// The reason that applies to all nodes, if any.
    pub everywhere: Option<Reason>,
    /// The number of nodes per reason.
    pub reasons: BTreeMap<Reason, usize>,
    /// The nodes that could fit after preemption.
    pub resolvable: BTreeSet<String>,
}

impl Diagnosis {
    fn everywhere(nodes: usize, reason: Reason) -> Self {
        Self {
            nodes,
            everywhere: Some(reason),
            ..Self::default()
        }
    }

    /// kube-scheduler's message, without its preemption part.
    pub fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let reasons = match &self.everywhere {
            Some(reason) => reason.text(),
            None => counted(self.reasons.iter().map(|(reason, count)| (reason.text(), *count))),
        };
        format!("0/{} nodes are available: {reasons}.", self.nodes)
    }

    /// Whether a change can make the pod schedulable.
    pub fn is_helped_by(&self, change: Change) -> bool {
        if self.nodes == 0 {
            return change == Change::Node;
        }
        self.everywhere
            .iter()
            .chain(self.reasons.keys())
            .any(|reason| reason.is_helped_by(change))
    }
}

/// `2 Insufficient cpu, 1 Too many pods`, sorted as text. Equal texts are added up.
pub fn counted(reasons: impl Iterator<Item = (String, usize)>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (text, count) in reasons {
        counts.entry(text).or_default().raise(count);
    }
    let mut texts: Vec<String> = counts
        .into_iter()
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    texts.sort();
    texts.join(", ")
}

/// Finds the best node for a pod.
///
/// # Errors
/// The diagnosis, if no node fits.
pub fn place(world: World<'_>, pod: &PodInfo) -> Result<Placement, Diagnosis> {
    let total = world.cluster.node_count();
    if total == 0 {
        return Err(Diagnosis::default());
    }
    let prepared = Prepared::new(world, pod).map_err(|reason| Diagnosis::everywhere(total, reason))?;
    if let Some(placement) = place_where_nominated(world, &prepared, pod) {
        return Ok(placement);
    }
    let mut feasible: Vec<&NodeInfo> = Vec::new();
    let mut diagnosis = Diagnosis {
        nodes: total,
        ..Diagnosis::default()
    };
    for node in world.cluster.nodes() {
        let reasons = check_with_nominated(world, &prepared, pod, node);
        if reasons.is_empty() {
            feasible.push(node);
            continue;
        }
        if reasons.iter().all(Reason::is_resolvable) {
            diagnosis.resolvable.insert(node.name.clone());
        }
        for reason in reasons {
            diagnosis.reasons.entry(reason).or_default().raise(1);
        }
    }
    match score::best(world, pod, &feasible) {
        Some(node) => Ok(placement(world, &prepared, node)),
        None => Err(diagnosis),
    }
}

/// A nominated pod takes its nominated node if it fits.
fn place_where_nominated(world: World<'_>, prepared: &Prepared, pod: &PodInfo) -> Option<Placement> {
    let node = world.cluster.node(pod.nominated_node()?)?;
    check_with_nominated(world, prepared, pod, node)
        .is_empty()
        .then(|| placement(world, prepared, node))
}

fn placement(world: World<'_>, prepared: &Prepared, node: &NodeInfo) -> Placement {
    Placement {
        node: node.name.clone(),
        bindings: storage::bindings(world.caches, &prepared.volumes, node).unwrap_or_default(),
    }
}

/// Checks a node with the nominated pods, and also without them, because required pods may not be there yet.
pub fn check_with_nominated(world: World<'_>, prepared: &Prepared, pod: &PodInfo, node: &NodeInfo) -> Vec<Reason> {
    let mut crowded: Option<(NodeInfo, Prepared)> = None;
    for other in world.cluster.nominated(&node.name) {
        if other.priority >= pod.priority && other.name != pod.name {
            let (node_then, prepared_then) = crowded.get_or_insert_with(|| (node.clone(), prepared.clone()));
            node_then.add(std::sync::Arc::clone(other));
            prepared_then.adjust(world, pod, other, node, 1);
        }
    }
    if let Some((node_then, prepared_then)) = crowded {
        let reasons = check(world, &prepared_then, pod, &node_then);
        if !reasons.is_empty() {
            return reasons;
        }
    }
    check(world, prepared, pod, node)
}
