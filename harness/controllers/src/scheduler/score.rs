//! Scores: kube-scheduler's scores and weights, except image locality. Ties go to the first name.

use std::collections::BTreeMap;

use super::cluster::World;
use super::node::NodeInfo;
use super::pod::{PodInfo, Spread};
use super::topology::counts_node;
use crate::matching::{term_selects_node, tolerated};
use quantity::Saturating as _;

/// The maximum of each score before weighting.
const HIGHEST: i64 = 100;
const RESOURCES_WEIGHT: i64 = 1;
const BALANCE_WEIGHT: i64 = 1;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;
const TAINTS_WEIGHT: i64 = 3;

/// The best of `nodes`, which must be sorted by name.
pub fn best<'a>(world: World<'a>, pod: &PodInfo, nodes: &[&'a NodeInfo]) -> Option<&'a NodeInfo> {
    let mut totals: Vec<i64> = nodes.iter().map(|node| by_resources(pod, node)).collect();
    let mut add = |scores: Option<Vec<i64>>, weight: i64| {
        for (total, score) in totals.iter_mut().zip(scores.into_iter().flatten()) {
            total.raise(score.saturating_mul(weight));
        }
    };
    add(by_taints(pod, nodes), TAINTS_WEIGHT);
    add(by_node_affinity(pod, nodes), NODE_AFFINITY_WEIGHT);
    add(by_spread(world, pod, nodes), SPREAD_WEIGHT);
    add(by_pod_affinity(world, pod, nodes), POD_AFFINITY_WEIGHT);
    let mut best: Option<(i64, &NodeInfo)> = None;
    for (total, node) in totals.iter().zip(nodes) {
        if best.is_none_or(|(score, _)| *total > score) {
            best = Some((*total, node));
        }
    }
    best.map(|(_, node)| node)
}

/// Prefers free nodes, and balanced use of CPU and memory.
fn by_resources(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let offered = [node.allocatable.milli_cpu, node.allocatable.memory];
    let mut free = 0;
    let mut counted = 0;
    for ((offered, there), more) in offered.into_iter().zip(node.scored).zip(pod.scored) {
        if offered > 0 {
            let left = offered.saturating_sub(there).saturating_sub(more);
            free.raise(ratio(left.max(0).saturating_mul(HIGHEST), offered));
            counted.raise(1);
        }
    }
    let used = [
        node.requested.milli_cpu.saturating_add(pod.requests.milli_cpu),
        node.requested.memory.saturating_add(pod.requests.memory),
    ];
    let least_allocated = ratio(free, counted).saturating_mul(RESOURCES_WEIGHT);
    least_allocated.saturating_add(balance(used, offered).saturating_mul(BALANCE_WEIGHT))
}

/// The standard deviation of two fractions is half their difference.
fn balance(used: [i64; 2], offered: [i64; 2]) -> i64 {
    let share = |index: usize| {
        if offered[index] == 0 {
            HIGHEST
        } else {
            ratio(used[index].saturating_mul(HIGHEST), offered[index]).min(HIGHEST)
        }
    };
    HIGHEST.saturating_sub(share(0).saturating_sub(share(1)).saturating_abs() / 2)
}

/// Prefers nodes with fewer untolerated `PreferNoSchedule` taints.
fn by_taints(pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let count = |node: &&NodeInfo| {
        let unwanted = node
            .taints()
            .iter()
            .filter(|taint| taint.effect == "PreferNoSchedule" && !tolerated(taint, pod.tolerations()));
        i64::try_from(unwanted.count()).unwrap_or(i64::MAX)
    };
    let counts: Vec<i64> = nodes.iter().map(count).collect();
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    Some(
        counts
            .into_iter()
            .map(|count| HIGHEST.saturating_sub(ratio(HIGHEST.saturating_mul(count), most)))
            .collect(),
    )
}

/// The sum of the weights of matching preferred terms.
fn by_node_affinity(pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let preferred = pod
        .spec()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .preferred_during_scheduling_ignored_during_execution
        .as_ref()?;
    let weigh = |node: &&NodeInfo| {
        let matching = preferred
            .iter()
            .filter(|term| term_selects_node(&term.preference, &node.name, node.labels()));
        quantity::total(matching.map(|term| i64::from(term.weight)))
    };
    let sums: Vec<i64> = nodes.iter().map(weigh).collect();
    let most = sums.iter().copied().max().filter(|most| *most > 0)?;
    Some(
        sums.into_iter()
            .map(|sum| ratio(HIGHEST.saturating_mul(sum), most))
            .collect(),
    )
}

/// Prefers domains with fewer matching pods.
fn by_spread(world: World<'_>, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let rules: Vec<&Spread> = pod.spread.iter().filter(|rule| !rule.required).collect();
    if rules.is_empty() {
        return None;
    }
    let mut sums = vec![0_i64; nodes.len()];
    for rule in rules {
        let mut by_domain: BTreeMap<&str, i64> = BTreeMap::new();
        for node in world.cluster.nodes().filter(|node| counts_node(rule, pod, node)) {
            let Some(value) = node.labels().get(&rule.topology_key) else {
                continue;
            };
            let there = node
                .pods
                .values()
                .filter(|other| !other.is_terminating() && rule.counts(&pod.name.namespace, other));
            by_domain
                .entry(value)
                .or_default()
                .raise(i64::try_from(there.count()).unwrap_or_default());
        }
        for (sum, node) in sums.iter_mut().zip(nodes) {
            match node.labels().get(&rule.topology_key) {
                Some(value) => sum.raise(by_domain.get(value.as_str()).copied().unwrap_or_default()),
                None => *sum = i64::from(u32::MAX),
            }
        }
    }
    spread_evenly(sums.into_iter().map(i64::saturating_neg).collect())
}

/// The weights of terms, summed over the domains of the pods that they select.
fn by_pod_affinity(world: World<'_>, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    if pod.preferences.is_empty() && !world.cluster.has_terms() {
        return None;
    }
    let mut weights: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
    let own_namespace = world.namespace_labels(&pod.name.namespace);
    for node in world.cluster.nodes() {
        if pod.preferences.is_empty() && node.pods_with_terms == 0 {
            continue;
        }
        for other in node.pods.values() {
            let namespace = world.namespace_labels(&other.name.namespace);
            let wanted = pod
                .preferences
                .iter()
                .filter(|(_, term)| term.selects(other, namespace));
            let wanting = other.pulls().filter(|(_, term)| term.selects(pod, own_namespace));
            for (weight, term) in wanted.map(|(weight, term)| (*weight, term)).chain(wanting) {
                if let Some(value) = node.labels().get(&term.topology_key) {
                    weights
                        .entry(&term.topology_key)
                        .or_default()
                        .entry(value)
                        .or_default()
                        .raise(weight);
                }
            }
        }
    }
    if weights.is_empty() {
        return None;
    }
    let weigh = |node: &&NodeInfo| {
        let matching = weights
            .iter()
            .filter_map(|(key, by_value)| by_value.get(node.labels().get(*key)?.as_str()));
        quantity::total(matching.copied())
    };
    spread_evenly(nodes.iter().map(weigh).collect())
}

/// The quotient; 0 for a part of nothing.
fn ratio(part: i64, whole: i64) -> i64 {
    part.checked_div(whole).unwrap_or_default()
}

/// Normalizes: the lowest score becomes 0, the highest [`HIGHEST`].
fn spread_evenly(scores: Vec<i64>) -> Option<Vec<i64>> {
    let (least, most) = (scores.iter().copied().min()?, scores.iter().copied().max()?);
    if least == most {
        return None;
    }
    let range = most.saturating_sub(least);
    let scale = |score: i64| ratio(score.saturating_sub(least).saturating_mul(HIGHEST), range);
    Some(scores.into_iter().map(scale).collect())
}
