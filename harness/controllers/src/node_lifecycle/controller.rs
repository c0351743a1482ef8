//! The controller: records changes in the observations, calls the decision, and turns its result into requests
//! that fail if the object has changed in between.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::decide::readiness;
use super::taints::has_eviction_taint;
use super::view::ready_condition;
use super::zones::{self, NodeReport, Verdict, Zone, Zones};
use super::{Decision, Observations, Settings, Silence, decide};
use crate::{Action, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, View};

/// The node lifecycle controller.
#[derive(Debug)]
pub struct NodeLifecycle {
    settings: Settings,
    observations: Observations,
    zones: Zones,
    /// When all nodes were last monitored together.
    monitored_at: Option<Timestamp>,
    /// Other keys that the last decision affects.
    affected_keys: Vec<(Key, Option<Timestamp>)>,
}

/// The key of a decision. Zones come first, so that a node's permission is written together with its other
/// changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The states of all zones, from a monitor round over all nodes.
    Zones,
    /// The next nodes of their zones that may be tainted.
    Turn,
    /// A node.
    Node(String),
}

/// Why a node or its pods are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kubelet is silent.
    Silent(Silence),
    /// The taints differ from the desired taints.
    Taints,
    /// The node is unreachable, so its pods are not ready.
    PodsUnreachable,
}

impl NodeLifecycle {
    /// A controller without observations.
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        Self {
            observations: Observations::new(now, settings.monitor_period).with_pulses(settings.pulses.clone()),
            settings,
            zones: Zones::default(),
            monitored_at: None,
            affected_keys: Vec::new(),
        }
    }

    /// Runs a monitor round over all nodes and records the verdict.
    fn look(&mut self, view: View<'_>) {
        self.monitored_at = Some(view.now);
        let mut reports = Vec::with_capacity(view.caches.nodes.len());
        for (key, node) in view.caches.nodes.iter() {
            let Some(seen) = self.observations.view(node, view.now) else {
                continue;
            };
            reports.push(NodeReport {
                name: &key.name,
                zone: Zone::of(node),
                readiness: readiness(&seen, view.now, &self.settings),
                counts: zones::counts(node),
                permission: seen.permission,
                is_tainted: has_eviction_taint(node),
            });
        }
        let verdict = self.zones.look(&reports, view.now, &self.settings.limits);
        if verdict.recovered {
            self.observations.restart_grace_periods(view.now);
        }
        self.follow(verdict, view.now);
    }

    fn follow(&mut self, verdict: Verdict, now: Timestamp) {
        for (name, permission) in verdict.permissions {
            self.observations.permitted(&name, permission);
            self.affected_keys.push((Key::Node(name), None));
        }
        if let Some(next) = verdict.next {
            self.affected_keys.push((Key::Turn, Some(next.max(now))));
        }
    }

    fn decide_on_node(&mut self, name: &str, view: View<'_>) -> Plan<Reason> {
        let Some(node) = view.caches.nodes.get(&ObjectKey::cluster(name)) else {
            return Plan::nothing();
        };
        let Some(seen) = self.observations.view(node, view.now) else {
            return Plan::nothing();
        };
        let decided = decide(&seen, view.now, &self.settings);
        let mut plan = Plan::nothing();
        for decision in decided.decisions {
            match decision {
                // The consequences are decided after the node is written; its zone is checked now.
                Decision::SetConditions { conditions, silence } => {
                    if self.monitored_at != Some(view.now) {
                        self.affected_keys.push((Key::Zones, None));
                    }
                    let status = json!({ "conditions": conditions });
                    return Plan::act(Reason::Silent(silence), Action::patch_status_as_seen(&**node, status));
                }
                Decision::SetTaints(taints) => {
                    let patch = json!({ "spec": { "taints": taints } });
                    return Plan::act(Reason::Taints, Action::merge_as_seen(&**node, patch));
                }
                Decision::MarkPodsNotReady { since } => {
                    self.observations.pods_marked_not_ready(name, Some(since));
                    for pod in view.caches.pods.indexed(name).filter(|pod| is_ready(pod)) {
                        plan.push(Reason::PodsUnreachable, not_ready(pod, view.now));
                    }
                }
            }
        }
        if let Some(deadline) = decided.deadline {
            plan.requeue_by(self.observations.round_at_or_after(deadline));
        }
        plan
    }
}

/// The inputs of a zone's state and of a node's permission.
fn zone_inputs(node: &Node) -> (Zone, bool, Option<&str>) {
    let ready = ready_condition(node).map(|ready| ready.status.as_str());
    (Zone::of(node), zones::counts(node), ready)
}

impl Controller for NodeLifecycle {
    type Key = Key;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "node-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Node, Kind::Lease, Kind::Pod])
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<Key>) {
        if let Some(node) = change.of::<Node>() {
            match node.after {
                Some(after) => {
                    self.observations.node_seen(after, view.now);
                    queue.add(Key::Node(change.key.name.clone()));
                }
                None => self.observations.node_gone(&change.key.name),
            }
            let lost_taint = node.before.is_some_and(has_eviction_taint) && !node.after.is_some_and(has_eviction_taint);
            if lost_taint || node.before.map(zone_inputs) != node.after.map(zone_inputs) {
                queue.add_at(Key::Zones, self.observations.round_at_or_after(view.now));
            }
        } else if let Some(lease) = change.of::<Lease>() {
            // A renewal only extends a deadline, which is computed when the old one passes.
            match lease.after {
                Some(lease) => self.observations.lease_seen(lease, view.now),
                None => self.observations.lease_gone(&change.key.name),
            }
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Plan<Reason> {
        match key {
            Key::Zones => self.look(view),
            Key::Turn => {
                let verdict = self.zones.grant(view.now);
                self.follow(verdict, view.now);
            }
            Key::Node(name) => return self.decide_on_node(name, view),
        }
        Plan::nothing()
    }

    fn decided(&mut self, queue: &mut Queue<Key>) {
        for (key, at) in self.affected_keys.drain(..) {
            match at {
                Some(at) => queue.add_at(key, at),
                None => queue.add(key),
            }
        }
    }

    fn performed(&mut self, key: &Key, _: &Action, outcome: &Outcome, _: View<'_>, _: &mut Queue<Key>) {
        if let (Key::Node(name), Err(_)) = (key, outcome) {
            self.observations.pods_marked_not_ready(name, None);
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
