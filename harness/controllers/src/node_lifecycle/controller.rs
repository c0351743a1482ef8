//! The controller: shows changes to the observations, asks the decision, and spells its actions out
//! as requests that fail when the object has changed in between.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{Decision, Observations, Settings, Silence, decide};
use crate::{Action, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, View};

/// The node lifecycle controller.
#[derive(Debug)]
pub struct NodeLifecycle {
    settings: Settings,
    observations: Observations,
}

/// Why a node or its pods are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its kubelet is silent.
    Silent(Silence),
    /// Its taints are not what its conditions ask for.
    Taints,
    /// Its pods cannot be ready.
    PodsUnreachable,
}

impl NodeLifecycle {
    /// A controller that has seen nothing yet.
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        Self {
            observations: Observations::new(now, settings.monitor_period),
            settings,
        }
    }
}

impl Controller for NodeLifecycle {
    type Key = String;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "node-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Node, Kind::Lease, Kind::Pod])
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<String>) {
        if let Some(node) = change.of::<Node>() {
            match node.after {
                Some(node) => {
                    self.observations.node_seen(node, view.now);
                    queue.add(change.key.name.clone());
                }
                None => self.observations.node_gone(&change.key.name),
            }
        } else if let Some(lease) = change.of::<Lease>() {
            // A renewal only moves a deadline, which is looked up when it comes.
            match lease.after {
                Some(lease) => self.observations.lease_seen(lease, view.now),
                None => self.observations.lease_gone(&change.key.name),
            }
        }
    }

    fn decide(&mut self, name: &String, view: View<'_>) -> Plan<Reason> {
        let Some(node) = view.caches.nodes.get(&ObjectKey::cluster(name)) else {
            return Plan::nothing();
        };
        let Some(seen) = self.observations.view(node) else {
            return Plan::nothing();
        };
        let decided = decide(&seen, view.now, &self.settings);
        let mut plan = Plan::nothing();
        for decision in decided.decisions {
            match decision {
                // What comes next is decided on the node as written.
                Decision::SetConditions { conditions, silence } => {
                    let status = json!({ "conditions": conditions });
                    return Plan::act(Reason::Silent(silence), Action::patch_status_as_seen(&**node, status));
                }
                Decision::SetTaints(taints) => {
                    let patch = json!({ "spec": { "taints": taints } });
                    return Plan::act(Reason::Taints, Action::merge_as_seen(&**node, patch));
                }
                Decision::MarkPodsNotReady { since } => {
                    self.observations.pods_marked(name, Some(since));
                    for pod in view.caches.pods.indexed(name).filter(|pod| is_ready(pod)) {
                        plan.push(Reason::PodsUnreachable, not_ready(pod, view.now));
                    }
                }
            }
        }
        if let Some(deadline) = decided.deadline {
            plan.look_by(self.observations.look_at_or_after(deadline));
        }
        plan
    }

    fn performed(&mut self, name: &String, _: &Action, outcome: &Outcome, _: View<'_>, _: &mut Queue<String>) {
        if outcome.is_err() {
            self.observations.pods_marked(name, None);
        }
    }
}

fn not_ready(pod: &Pod, now: Timestamp) -> Action {
    let ready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": Time(now) });
    Action::patch_status_as_seen(pod, json!({ "conditions": [ready] }))
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
