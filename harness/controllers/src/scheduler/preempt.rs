//! Preemption: which pods a higher-priority pod evicts, and on which node.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::cluster::World;
use super::filter::Prepared;
use super::node::NodeInfo;
use super::place::{Diagnosis, check_with_nominated, counted};
use super::pod::PodInfo;
use crate::foundation::{Cache, ObjectKey};
use crate::matching::selects;
use quantity::Saturating as _;

/// The reason of the condition on victims.
pub const PREEMPTED: &str = "PreemptionByScheduler";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// A node and its victims.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// The node.
    pub node: String,
    /// The victims; the most important first.
    pub victims: Vec<Arc<PodInfo>>,
    /// Lower-priority nominated pods, which lose their nomination.
    pub displaced: Vec<ObjectKey>,
}

/// Why preemption is impossible: the part of kube-scheduler's message after `preemption: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPreemption {
    /// The pod's policy is `Never`.
    #[error("not eligible due to preemptionPolicy=Never.")]
    Policy,
    /// Victims are already terminating on the nominated node.
    #[error("not eligible due to a terminating pod on the nominated node.")]
    Waiting,
    /// Preemption cannot help on any node.
    #[error("")]
    Hopeless,
    /// Preemption fails on every node.
    #[error("0/{nodes} nodes are available: {reasons}.")]
    NoNode {
        /// The number of nodes.
        nodes: usize,
        /// The reasons, with the number of nodes.
        reasons: String,
    },
}

/// Chooses the node with the fewest and least important victims.
///
/// # Errors
/// Why preemption is impossible.
pub fn preempt(world: World<'_>, pod: &PodInfo, diagnosis: &Diagnosis) -> Result<Preemption, NoPreemption> {
    if pod.spec().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Err(NoPreemption::Policy);
    }
    if is_waiting_for_victims(world, pod, diagnosis) {
        return Err(NoPreemption::Waiting);
    }
    if diagnosis.everywhere.is_some() {
        return Err(NoPreemption::Hopeless);
    }
    let Ok(prepared) = Prepared::new(world, pod) else {
        return Err(NoPreemption::Hopeless);
    };
    let mut reasons = vec![(
        NOT_HELPFUL.to_owned(),
        diagnosis.nodes.saturating_sub(diagnosis.resolvable.len()),
    )];
    let mut candidates = Vec::new();
    for node in diagnosis.resolvable.iter().filter_map(|name| world.cluster.node(name)) {
        match victims_on(world, &prepared, pod, node) {
            Ok(victims) => candidates.push((rank(&victims), node, victims)),
            Err(texts) => reasons.extend(texts.into_iter().map(|text| (text, 1))),
        }
    }
    let best = candidates
        .into_iter()
        .min_by(|(one, node, _), (other, other_node, _)| (one, &node.name).cmp(&(other, &other_node.name)));
    let Some((_, node, victims)) = best else {
        reasons.retain(|(_, count)| *count > 0);
        let reasons = counted(reasons.into_iter());
        let nodes = diagnosis.nodes;
        return Err(NoPreemption::NoNode { nodes, reasons });
    };
    let displaced = world
        .cluster
        .nominated(&node.name)
        .filter(|other| other.priority < pod.priority)
        .map(|other| other.name.clone())
        .collect();
    Ok(Preemption {
        node: node.name.clone(),
        victims: victims.pods.into_iter().map(|(pod, _)| pod).collect(),
        displaced,
    })
}

/// Whether victims are already terminating on the nominated node.
fn is_waiting_for_victims(world: World<'_>, pod: &PodInfo, diagnosis: &Diagnosis) -> bool {
    let Some(node) = pod.nominated_node().and_then(|name| world.cluster.node(name)) else {
        return false;
    };
    diagnosis.resolvable.contains(&node.name)
        && node
            .pods
            .values()
            .any(|other| other.priority < pod.priority && was_preempted(other))
}

fn was_preempted(pod: &PodInfo) -> bool {
    let conditions = pod.pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    pod.is_terminating()
        && conditions.unwrap_or_default().iter().any(|condition| {
            condition.type_ == "DisruptionTarget"
                && condition.status == "True"
                && condition.reason.as_deref() == Some(PREEMPTED)
        })
}

/// The victims, each with whether its eviction violates a disruption budget.
struct Victims {
    pods: Vec<(Arc<PodInfo>, bool)>,
}

/// Removes all lower-priority pods, then keeps as many as possible: those that a disruption budget protects
/// first, then the most important.
fn victims_on(world: World<'_>, prepared: &Prepared, pod: &PodInfo, node: &NodeInfo) -> Result<Victims, Vec<String>> {
    let mut lower: Vec<Arc<PodInfo>> = node
        .pods
        .values()
        .filter(|other| other.priority < pod.priority)
        .cloned()
        .collect();
    if lower.is_empty() {
        return Err(vec![NO_VICTIMS.to_owned()]);
    }
    let mut node_then = node.clone();
    let mut prepared_then = prepared.clone();
    for other in &lower {
        node_then.remove(&other.name);
        prepared_then.adjust(world, pod, other, node, -1);
    }
    let reasons = check_with_nominated(world, &prepared_then, pod, &node_then);
    if !reasons.is_empty() {
        return Err(reasons.iter().map(super::reason::Reason::text).collect());
    }
    lower.sort_by_key(|other| importance(other));
    let (violating, others) = split_by_budgets(lower, &world.caches.disruption_budgets);
    let mut victims = Vec::new();
    let marked = violating.into_iter().map(|pod| (pod, true));
    for (other, violates) in marked.chain(others.into_iter().map(|pod| (pod, false))) {
        node_then.add(Arc::clone(&other));
        prepared_then.adjust(world, pod, &other, node, 1);
        if !check_with_nominated(world, &prepared_then, pod, &node_then).is_empty() {
            node_then.remove(&other.name);
            prepared_then.adjust(world, pod, &other, node, -1);
            victims.push((other, violates));
        }
    }
    if victims.is_empty() {
        return Err(vec![NO_VICTIMS.to_owned()]);
    }
    victims.sort_by_key(|(pod, _)| importance(pod));
    Ok(Victims { pods: victims })
}

/// Sort key, most important first: higher priority, then earlier start.
fn importance(pod: &PodInfo) -> (std::cmp::Reverse<i32>, Timestamp, ObjectKey) {
    (
        std::cmp::Reverse(pod.priority),
        start_of(pod).unwrap_or(Timestamp::MAX),
        pod.name.clone(),
    )
}

fn start_of(pod: &PodInfo) -> Option<Timestamp> {
    pod.pod.status.as_ref()?.start_time.as_ref().map(|time| time.0)
}

/// Sort key, best first: budget violations, highest victim priority, sum of priorities, number of victims,
/// latest start of the most important victims.
fn rank(victims: &Victims) -> (usize, i32, i64, usize, std::cmp::Reverse<Timestamp>) {
    let violated = victims.pods.iter().filter(|(_, violates)| *violates).count();
    let priorities = || victims.pods.iter().map(|(pod, _)| pod.priority);
    let highest = priorities().max().unwrap_or_default();
    // Priorities may be negative; every additional victim must increase the sum.
    let sum = quantity::total(priorities().map(|priority| i64::from(priority).saturating_sub(i64::from(i32::MIN))));
    let started = victims
        .pods
        .iter()
        .filter(|(pod, _)| pod.priority == highest)
        .filter_map(|(pod, _)| start_of(pod))
        .min();
    (
        violated,
        highest,
        sum,
        victims.pods.len(),
        std::cmp::Reverse(started.unwrap_or(Timestamp::MAX)),
    )
}

/// Splits off the pods whose eviction violates a disruption budget; both lists keep their order. Each pod
/// consumes its budgets.
fn split_by_budgets(
    pods: Vec<Arc<PodInfo>>,
    budgets: &Cache<PodDisruptionBudget>,
) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut allowed: BTreeMap<&ObjectKey, i32> = budgets
        .iter()
        .map(|(name, budget)| {
            (
                name,
                budget
                    .status
                    .as_ref()
                    .and_then(|status| status.disruptions_allowed)
                    .unwrap_or_default(),
            )
        })
        .collect();
    pods.into_iter().partition(|pod| {
        let mut violates = false;
        for (name, budget) in budgets.in_namespace(&pod.name.namespace) {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let status = budget.status.as_ref();
            let counted = status.and_then(|status| status.disrupted_pods.as_ref());
            let covers = selector.is_some_and(|selector| {
                let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
                    && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
                !empty && selects(selector, pod.labels())
            });
            if !covers || counted.is_some_and(|pods| pods.contains_key(&pod.name.name)) {
                continue;
            }
            if let Some(left) = allowed.get_mut(name) {
                left.lower(1);
                violates |= *left < 0;
            }
        }
        violates
    })
}
