//! The decision about one ReplicaSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::Kind;
use crate::workloads::claims::claim;
use crate::workloads::meta::{self, Owner, count, counted, size};
use crate::workloads::plan::{Attempt, Failure, Plan};
use crate::workloads::{pods, ranking};
use quantity::Saturating as _;

/// The maximum number of creations or deletions per pass.
const BURST: usize = 500;
/// The condition that reports failed creations or deletions.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The observed state for a decision about a ReplicaSet.
#[derive(Clone, Debug)]
pub struct View {
    /// The set.
    pub set: Arc<ReplicaSet>,
    /// The pods that it controls, and the orphaned pods of its namespace.
    pub pods: Vec<Arc<Pod>>,
    /// The active pods of all sets with the same controller, to count pods per node.
    pub related: Vec<Arc<Pod>>,
    /// The failure of the last attempt.
    pub failure: Option<Failure>,
}

/// Decides about one ReplicaSet.
pub fn decide(view: &View, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let set = &view.set;
    let Some(spec) = &set.spec else { return plan };
    let owner = Owner::of(&**set);
    let claimed = claim(&mut plan, Kind::Pod, &owner, &spec.selector, &view.pods, |pod| {
        !pods::is_terminal(pod)
    });
    let active: Vec<Arc<Pod>> = claimed.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let terminating = claimed.iter().filter(|pod| pods::is_terminating(pod)).count();
    let min_ready = spec.min_ready_seconds.unwrap_or_default();

    let status = status(view, spec, &active, terminating, now);
    if set.status.as_ref() != Some(&status) {
        let mut changed = ReplicaSet::clone(set);
        changed.status = Some(status);
        plan.update_status(changed);
    }
    if !owner.deleting {
        scale(&mut plan, view, spec, &owner, active.clone(), now);
    }
    plan.wake(pods::next_available(active.iter().map(AsRef::as_ref), min_ready, now));
    plan
}

/// Creates missing pods or deletes surplus ones.
fn scale(
    plan: &mut Plan,
    view: &View,
    spec: &ReplicaSetSpec,
    owner: &Owner,
    mut active: Vec<Arc<Pod>>,
    now: Timestamp,
) {
    let wanted = size(spec.replicas.unwrap_or(1));
    let template = spec.template.clone().unwrap_or_default();
    for _ in 0..wanted.saturating_sub(active.len()).min(BURST) {
        plan.create_pod(pods::from_template(&template, owner, format!("{}-", owner.name)));
    }
    let surplus = active.len().saturating_sub(wanted).min(BURST);
    if surplus == 0 {
        return;
    }
    if wanted > 0 {
        let mut neighbours = BTreeMap::<String, usize>::new();
        for node in view.related.iter().filter_map(|pod| pods::node(pod)) {
            neighbours.entry(node.to_owned()).or_default().raise(1);
        }
        ranking::sort_for_deletion(&mut active, &neighbours, now);
    }
    for pod in active.iter().take(surplus) {
        plan.delete_pod(pod);
    }
}

fn status(
    view: &View,
    spec: &ReplicaSetSpec,
    active: &[Arc<Pod>],
    terminating: usize,
    now: Timestamp,
) -> ReplicaSetStatus {
    let template = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let template_labels = template
        .and_then(|template| template.labels.clone())
        .unwrap_or_default();
    let fully_labeled = |pod: &&Arc<Pod>| {
        template_labels
            .iter()
            .all(|(key, value)| meta::label(&pod.metadata, key) == Some(value))
    };
    let min_ready = spec.min_ready_seconds.unwrap_or_default();
    let counted_if = |holds: &dyn Fn(&&Arc<Pod>) -> bool| counted(count(active.iter().filter(holds).count()));
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: counted_if(&fully_labeled),
        ready_replicas: counted_if(&|pod| pods::is_ready(pod)),
        available_replicas: counted_if(&|pod| pods::is_available(pod, min_ready, now)),
        terminating_replicas: Some(count(terminating)),
        observed_generation: view.set.metadata.generation,
        conditions: conditions(view, now),
    }
}

/// The existing conditions, with ReplicaFailure updated from the last attempt.
fn conditions(view: &View, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let status = view.set.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
    let failure = view.failure.as_ref().map(|failure| match failure.what {
        Attempt::Create => ("FailedCreate", &failure.message),
        Attempt::Delete => ("FailedDelete", &failure.message),
    });
    match failure {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        Some(_) if conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE) => {}
        Some((reason, message)) => conditions.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.clone()),
            last_transition_time: Some(Time(now)),
        }),
    }
    (!conditions.is_empty()).then_some(conditions)
}
