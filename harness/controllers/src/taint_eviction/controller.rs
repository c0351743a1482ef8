//! The taint eviction controller: caches in, deletions out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::decide::{Reason, Verdict, verdict};
use crate::{Action, Change, Controller, Kind, ObjectKey, Plan, Queue, Severity, View};

/// The taint eviction controller.
#[derive(Debug, Default)]
pub struct TaintEviction {
    /// Since when each pod has been observed with taints that it tolerates for a limited time, by uid.
    since: BTreeMap<String, Timestamp>,
}

impl Controller for TaintEviction {
    /// A pod.
    type Key = ObjectKey;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Pod, Kind::Node])
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        if let Some(pod) = change.of::<Pod>() {
            let concerns = |pod: &Pod| {
                pod.spec
                    .as_ref()
                    .map(|spec| (spec.node_name.clone(), spec.tolerations.clone()))
            };
            match (pod.before, pod.after) {
                (Some(before), None) => drop(self.since.remove(before.metadata.uid.as_deref().unwrap_or_default())),
                (Some(before), Some(after))
                    if concerns(before) == concerns(after)
                        && before.metadata.deletion_timestamp == after.metadata.deletion_timestamp => {}
                _ => queue.add(change.key.clone()),
            }
        } else if let Some(node) = change.of::<Node>() {
            let before = node.before.map(no_execute).unwrap_or_default();
            if node.after.is_some_and(|after| no_execute(after) != before) {
                for pod in view.caches.pods.indexed(&change.key.name) {
                    queue.add(ObjectKey::of(&**pod));
                }
            }
        }
    }

    fn decide(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let Some(pod) = view.caches.pods.get(key) else {
            return Plan::nothing();
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let Some(spec) = pod.spec.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none()) else {
            self.since.remove(&uid);
            return Plan::nothing();
        };
        let node = spec.node_name.as_deref().unwrap_or_default();
        let taints = view
            .caches
            .nodes
            .get(&ObjectKey::cluster(node))
            .map(|node| no_execute(node))
            .unwrap_or_default();
        match verdict(&taints, spec.tolerations.as_deref().unwrap_or_default()) {
            Verdict::Stays => match self.since.remove(&uid) {
                Some(_) => reprieve(pod),
                None => Plan::nothing(),
            },
            Verdict::Evict => evict(pod, view.now),
            Verdict::StaysFor(duration) => {
                let since = *self.since.entry(uid).or_insert(view.now);
                let end = since.saturating_add(duration).unwrap_or(Timestamp::MAX);
                if view.now >= end {
                    evict(pod, view.now)
                } else {
                    Plan::wait_until(end)
                }
            }
        }
    }
}

fn no_execute(node: &Node) -> Vec<&Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let all = taints.unwrap_or_default().iter();
    all.filter(|taint| taint.effect == "NoExecute").collect()
}

fn evict(pod: &Pod, now: Timestamp) -> Plan<Reason> {
    let key = ObjectKey::of(pod);
    let mut plan = Plan::nothing();
    let message = format!("Marking for deletion Pod {key}");
    plan.push(Reason::Evicted, event(pod, message));
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": Time(now),
        "observedGeneration": pod.metadata.generation,
    });
    plan.actions
        .push(Action::patch_status(pod, json!({ "conditions": [condition] })));
    plan.actions.push(Action::delete(pod));
    plan
}

fn reprieve(pod: &Pod) -> Plan<Reason> {
    let message = format!("Cancelling deletion of Pod {}", ObjectKey::of(pod));
    Plan::act(Reason::Reprieved, event(pod, message))
}

fn event(pod: &Pod, message: String) -> Action {
    Action::event(pod, Severity::Normal, "TaintManagerEviction", message)
}
