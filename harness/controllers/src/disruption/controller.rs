//! The disruption controller: caches in, status writes and events out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use runtime::selector::Selection;

use super::count::{evictions, expected, failed, healthy, needs_scales, status};
use super::expected::{Scales, scales};
use super::{Reason, stale};
use crate::{Action, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, Severity, View};

/// The key of a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A budget.
    Budget(ObjectKey),
    /// A pod with a `DisruptionTarget` condition.
    Pod(ObjectKey),
}

/// The disruption controller.
#[derive(Debug, Default)]
pub struct Disruption {
    /// The scales that the controller has read for a budget, by the uid of the pods' controller.
    answers: BTreeMap<ObjectKey, BTreeMap<String, Option<i32>>>,
}

impl Disruption {
    fn decide_on_budget(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let answers = self.answers.remove(key).unwrap_or_default();
        let Some(budget) = view.caches.disruption_budgets.get(key) else {
            return Plan::nothing();
        };
        let pods = pods_of(budget, view);
        let mut plan = Plan::nothing();
        let mut scaled = 0;
        if needs_scales(budget) {
            match scales(&pods, view.caches, &answers) {
                Scales::Known { sum, unmanaged } => {
                    scaled = sum;
                    if unmanaged > 0 {
                        plan.push(Reason::Noteworthy, unmanaged_pods(budget));
                    }
                }
                Scales::Unread(targets) => {
                    self.answers.insert(key.clone(), answers);
                    for target in targets.into_values() {
                        let subresource = Some("scale");
                        plan.push(Reason::ScaleUnknown, Action::Read { target, subresource });
                    }
                    plan.requeue_by(view.now);
                    return plan;
                }
                Scales::Failed(why) => return sync_failed(budget, &why, view),
            }
        }
        let evictions = evictions(budget, &pods, view.now);
        for name in &evictions.failed {
            if let Some(pod) = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(name)) {
                let message = format!("Pod was expected by PDB {key} to be deleted but it wasn't");
                let event = Action::event(&***pod, Severity::Warning, "NotDeleted", message);
                plan.push(Reason::NotDeleted, event);
            }
        }
        plan.deadline = evictions.next.map(just_after);
        let healthy = healthy(&pods, &evictions.under_way);
        let expected = expected(budget, pods.len(), scaled);
        match status(budget, expected, healthy, evictions.under_way, view.now) {
            Some(status) => {
                if pods.is_empty() {
                    let event = Action::event(&**budget, Severity::Normal, "NoPods", "No matching pods found");
                    plan.push(Reason::Noteworthy, event);
                }
                plan.push(Reason::Outdated, write(budget, status));
            }
            // Emit events only when the status changes.
            None => plan.actions.retain(|_| !evictions.failed.is_empty()),
        }
        plan
    }
}

impl Controller for Disruption {
    type Key = Key;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "controllermanager"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([
            Kind::PodDisruptionBudget,
            Kind::Pod,
            Kind::ReplicationController,
            Kind::ReplicaSet,
            Kind::Deployment,
            Kind::StatefulSet,
        ])
    }

    /// Custom resources may have a scale.
    fn needs_all_metadata(&self) -> bool {
        true
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<Key>) {
        if change.of::<PodDisruptionBudget>().is_some() {
            queue.add(Key::Budget(change.key.clone()));
        } else if let Some(pod) = change.of::<Pod>() {
            for (key, budget) in view.caches.disruption_budgets.in_namespace(&change.key.namespace) {
                let selector = selector_of(budget);
                if pod.both().any(|pod| selector.matches(pod.metadata.labels.as_ref())) {
                    queue.add(Key::Budget(key.clone()));
                }
            }
            if pod.after.is_some_and(|pod| stale::stale_at(pod).is_some()) {
                queue.add(Key::Pod(change.key.clone()));
            }
        } else if change.of::<Deployment>().is_some()
            || change.of::<ReplicaSet>().is_some()
            || change.of::<StatefulSet>().is_some()
            || change.of::<ReplicationController>().is_some()
        {
            let scale_may_count = |budget: &PodDisruptionBudget| needs_scales(budget);
            for (key, budget) in view.caches.disruption_budgets.in_namespace(&change.key.namespace) {
                if scale_may_count(budget) {
                    queue.add(Key::Budget(key.clone()));
                }
            }
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Plan<Reason> {
        match key {
            Key::Budget(key) => self.decide_on_budget(key, view),
            Key::Pod(key) => match view.caches.pods.get(key) {
                Some(pod) => stale::decide(pod, view.now),
                None => Plan::nothing(),
            },
        }
    }

    fn performed(&mut self, key: &Key, action: &Action, outcome: &Outcome, view: View<'_>, _: &mut Queue<Key>) {
        let (Key::Budget(key), Action::Read { target, .. }, Ok(answer)) = (key, action, outcome) else {
            return;
        };
        let replicas = answer
            .as_ref()
            .map(|scale| scale["spec"]["replicas"].as_i64().unwrap_or_default())
            .and_then(|replicas| i32::try_from(replicas).ok());
        let Some(budget) = view.caches.disruption_budgets.get(key) else {
            return;
        };
        let owners = pods_of(budget, view)
            .into_iter()
            .flat_map(|pod| pod.metadata.owner_references.iter().flatten())
            .filter(|owner| owner.name == target.key.name && target.resource.kind == owner.kind.as_str());
        let answers = self.answers.entry(key.clone()).or_default();
        for owner in owners {
            answers.insert(owner.uid.clone(), replicas);
        }
    }
}

fn pods_of<'a>(budget: &PodDisruptionBudget, view: View<'a>) -> Vec<&'a Arc<Pod>> {
    let selector = selector_of(budget);
    let namespace = budget.metadata.namespace.clone().unwrap_or_default();
    let first = ObjectKey::new(namespace.clone(), "");
    view.caches
        .pods
        .from(&first)
        .take_while(|(key, _)| key.namespace == namespace)
        .map(|(_, pod)| pod)
        .filter(|pod| selector.matches(pod.metadata.labels.as_ref()))
        .collect()
}

/// A budget without a selector selects no pods; an empty selector selects all pods.
fn selector_of(budget: &PodDisruptionBudget) -> Selection {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.map_or(Selection::NOTHING, Selection::of)
}

fn write(budget: &PodDisruptionBudget, status: k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus) -> Action {
    let mut budget = budget.clone();
    budget.status = Some(status);
    Action::replace_status(&budget)
}

fn unmanaged_pods(budget: &PodDisruptionBudget) -> Action {
    let message = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of \
                   the PDB cannot be calculated correctly, which may result in undefined behavior.";
    Action::event(budget, Severity::Warning, "UnmanagedPods", message)
}

fn sync_failed(budget: &PodDisruptionBudget, why: &str, view: View<'_>) -> Plan<Reason> {
    let mut plan = Plan::nothing();
    if let Some(status) = failed(budget, why, view.now) {
        let message = format!("Failed to calculate the number of expected pods: {why}");
        let event = Action::event(budget, Severity::Warning, "CalculateExpectedPodCountFailed", message);
        plan.push(Reason::SyncFailed, event);
        plan.actions.push(write(budget, status));
    }
    plan
}

/// An eviction expires only after its deadline, not at it.
fn just_after(moment: jiff::Timestamp) -> jiff::Timestamp {
    moment
        .saturating_add(jiff::SignedDuration::from_millis(1))
        .unwrap_or(jiff::Timestamp::MAX)
}
