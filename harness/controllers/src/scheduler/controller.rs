//! The scheduler as a controller: turns placements into requests.
//!
//! Pods are decided one after the other in the backlog's order, each against a cluster that includes the
//! assumed nodes of earlier pods; the bindings are then sent a few at a time. The assumptions exist only in
//! memory. They end when the watch shows the binding or the request fails; a new process decides again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::ResourceExt;
use serde_json::json;

use super::backlog::Backlog;
use super::cluster::{Cluster, World};
use super::place::{Diagnosis, Placement, place};
use super::pod::{DEFAULT_SCHEDULER, PodInfo};
use super::preempt::preempt;
use super::reason::Change as Helpful;
use super::report;
use super::storage::Binding;
use crate::foundation::{
    Action, Cached, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, Severity, Target, Transition, View,
};
use crate::volumes::fit::{self, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE};

/// The maximum number of pods with requests in progress.
const SLOTS: usize = 16;
/// The timeout for binding volumes (kube-scheduler's `bindTimeoutSeconds`).
const VOLUME_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The scheduler. Its keys are slots for pods with requests in progress.
#[derive(Debug, Default)]
pub struct Scheduler {
    cluster: Cluster,
    backlog: Backlog,
    /// Pods whose binding the API server has not confirmed.
    assumed: BTreeMap<ObjectKey, Assumed>,
    /// Assumed pods whose volumes are bound.
    bindable: BTreeSet<ObjectKey>,
    /// The pod of each busy slot.
    slots: BTreeMap<usize, ObjectKey>,
}

#[derive(Debug)]
struct Assumed {
    uid: String,
    node: String,
    /// The deadline for binding its volumes; `None` for a pod without volumes to bind.
    volumes_until: Option<Timestamp>,
}

/// Why the scheduler writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The pod is bound to this node.
    Bind {
        /// The pod.
        pod: ObjectKey,
        /// The node.
        node: String,
    },
    /// The pod's volumes are provisioned or bound for this node first.
    BindVolumes {
        /// The pod.
        pod: ObjectKey,
        /// The node.
        node: String,
    },
    /// No node fits.
    Unschedulable {
        /// The pod.
        pod: ObjectKey,
        /// The diagnosis.
        message: String,
    },
    /// Preemption: other pods are evicted.
    Preempt {
        /// The pod.
        pod: ObjectKey,
        /// The node.
        node: String,
        /// The victims.
        victims: Vec<ObjectKey>,
    },
}

impl Controller for Scheduler {
    type Key = usize;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        DEFAULT_SCHEDULER
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([
            Kind::Node,
            Kind::Pod,
            Kind::Namespace,
            Kind::PersistentVolume,
            Kind::PersistentVolumeClaim,
            Kind::StorageClass,
            Kind::CSINode,
            Kind::VolumeAttachment,
            Kind::PodDisruptionBudget,
        ])
    }

    fn concurrency(&self) -> usize {
        SLOTS
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<usize>) {
        if let Some(transition) = change.of::<Node>() {
            self.node_changed(transition, &change.key, view);
        } else if let Some(transition) = change.of::<Pod>() {
            self.pod_changed(transition, &change.key, view);
        } else if change.of::<Namespace>().is_some() {
            self.backlog.changed(Helpful::PodPlaced, view.now);
        } else if is_storage(change) {
            self.backlog.changed(Helpful::Storage, view.now);
            self.check_volume_bindings(view);
        }
        self.wake(queue);
    }

    fn synced(&mut self, _view: View<'_>, queue: &mut Queue<usize>) {
        self.wake(queue);
    }

    fn decide(&mut self, slot: &usize, view: View<'_>) -> Plan<Reason> {
        self.slots.remove(slot);
        self.expire_volume_bindings(view);
        let mut plan = Plan::nothing();
        while plan.actions.is_empty() {
            let Some(pod) = self.next(view.now) else {
                return match self.next_wake() {
                    Some(at) if *slot == 0 => Plan::wait_until(at),
                    _ => Plan::nothing(),
                };
            };
            plan = self.decide_on(&pod, view);
            self.slots.insert(*slot, pod);
        }
        plan.deadline = Some(view.now);
        plan
    }

    fn performed(
        &mut self,
        slot: &usize,
        action: &Action,
        outcome: &Outcome,
        view: View<'_>,
        queue: &mut Queue<usize>,
    ) {
        if let (Some(pod), Err(_)) = (self.slots.get(slot).cloned(), outcome) {
            // The next attempt uses the state at that time.
            if !matches!(action, Action::Event { .. }) {
                self.forget(&pod);
                self.requeue(&pod, view);
            }
        }
        self.wake(queue);
    }
}

impl Scheduler {
    /// Wakes as many slots as there are pods to process.
    fn wake(&self, queue: &mut Queue<usize>) {
        let work = self.backlog.ready().saturating_add(self.bindable.len());
        for slot in 0..work.min(SLOTS) {
            queue.add(slot);
        }
        if let Some(at) = self.next_wake() {
            queue.add_at(0, at);
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let volumes = self.assumed.values().filter_map(|assumed| assumed.volumes_until).min();
        self.backlog.next_wake().into_iter().chain(volumes).min()
    }

    /// Pods whose volumes are bound come before pods without a node.
    fn next(&mut self, now: Timestamp) -> Option<ObjectKey> {
        self.bindable.pop_first().or_else(|| self.backlog.next(now))
    }

    fn node_changed(&mut self, transition: Transition<'_, Node>, key: &ObjectKey, view: View<'_>) {
        match (transition.after, view.caches.nodes.get(key)) {
            (Some(_), Some(node)) => {
                if self.cluster.set_node(Arc::clone(node)) {
                    self.backlog.changed(Helpful::Node, view.now);
                }
            }
            _ => {
                self.cluster.remove_node(&key.name);
                self.backlog.changed(Helpful::NodeGone, view.now);
            }
        }
    }

    fn pod_changed(&mut self, transition: Transition<'_, Pod>, key: &ObjectKey, view: View<'_>) {
        let Some(pod) = view.caches.pods.get(key).filter(|_| transition.after.is_some()) else {
            self.pod_gone(key, view.now);
            return;
        };
        if is_finished(pod) {
            self.pod_gone(key, view.now);
            return;
        }
        if let Some(node) = node_of(pod) {
            self.assumed.remove(key);
            self.bindable.remove(key);
            self.backlog.remove(key);
            if self.cluster.is_placed_same(key, pod, node) {
                return;
            }
            let begins_to_end = pod.metadata.deletion_timestamp.is_some();
            self.cluster.place(Arc::new(PodInfo::new(Arc::clone(pod))), node);
            let helpful = if begins_to_end {
                Helpful::PodGone
            } else {
                Helpful::PodPlaced
            };
            self.backlog.changed(helpful, view.now);
            return;
        }
        self.pending_pod_changed(transition, pod, key, view.now);
    }

    fn pending_pod_changed(
        &mut self,
        transition: Transition<'_, Pod>,
        pod: &Arc<Pod>,
        key: &ObjectKey,
        now: Timestamp,
    ) {
        if let Some(assumed) = self.assumed.get(key) {
            if Some(&assumed.uid) == pod.metadata.uid.as_ref() {
                return;
            }
            self.forget(key);
        }
        let spec = pod.spec.as_ref();
        let ours = spec.and_then(|spec| spec.scheduler_name.as_deref()) == Some(DEFAULT_SCHEDULER);
        let gated = spec
            .and_then(|spec| spec.scheduling_gates.as_ref())
            .is_some_and(|gates| !gates.is_empty());
        if !ours || gated || pod.metadata.deletion_timestamp.is_some() {
            self.backlog.remove(key);
            self.cluster.withdraw(key);
            return;
        }
        let nominated = pod
            .status
            .as_ref()
            .and_then(|status| status.nominated_node_name.as_deref());
        match nominated.filter(|node| !node.is_empty()) {
            Some(node) => self.cluster.nominate(Arc::new(PodInfo::new(Arc::clone(pod))), node),
            None => self.cluster.withdraw(key),
        }
        let recreated = transition
            .before
            .is_some_and(|before| before.metadata.uid != pod.metadata.uid);
        if recreated {
            self.backlog.remove(key);
        }
        if !self.backlog.contains(key) {
            let priority = spec.and_then(|spec| spec.priority).unwrap_or_default();
            self.backlog.add(key.clone(), priority, now);
        } else if transition
            .before
            .is_some_and(|before| before.spec != pod.spec || before.metadata.labels != pod.metadata.labels)
        {
            self.backlog.retry(key, now);
        }
    }

    fn pod_gone(&mut self, key: &ObjectKey, now: Timestamp) {
        self.backlog.remove(key);
        self.assumed.remove(key);
        self.bindable.remove(key);
        self.cluster.withdraw(key);
        if self.cluster.unplace(key).is_some() {
            self.backlog.changed(Helpful::PodGone, now);
        }
    }

    /// Drops the assumption about a pod.
    fn forget(&mut self, pod: &ObjectKey) {
        if self.assumed.remove(pod).is_some() {
            self.bindable.remove(pod);
            self.cluster.unplace(pod);
        }
    }

    fn requeue(&mut self, key: &ObjectKey, view: View<'_>) {
        let Some(pod) = view.caches.pods.get(key).filter(|pod| node_of(pod).is_none()) else {
            return;
        };
        if !self.backlog.contains(key) {
            let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
            self.backlog.add(key.clone(), priority, view.now);
        }
        self.backlog.retry(key, view.now);
    }

    /// Decides about one pod.
    fn decide_on(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let Some(pod) = view.caches.pods.get(key) else {
            self.backlog.remove(key);
            return Plan::nothing();
        };
        if let Some(assumed) = self.assumed.get_mut(key) {
            assumed.volumes_until = None;
            let node = assumed.node.clone();
            return bind(pod, key, &node);
        }
        let info = Arc::new(PodInfo::new(Arc::clone(pod)));
        let world = World {
            cluster: &self.cluster,
            caches: view.caches,
        };
        match place(world, &info) {
            Ok(placement) => self.assume(&info, placement, view),
            Err(diagnosis) => self.refuse(&info, diagnosis, view),
        }
    }

    fn assume(&mut self, pod: &Arc<PodInfo>, placement: Placement, view: View<'_>) -> Plan<Reason> {
        let Placement { node, bindings } = placement;
        let volumes_until = if bindings.is_empty() {
            None
        } else {
            view.now.checked_add(VOLUME_TIMEOUT).ok()
        };
        let assumed = Assumed {
            uid: pod.uid().to_owned(),
            node: node.clone(),
            volumes_until,
        };
        self.assumed.insert(pod.name.clone(), assumed);
        self.cluster.place(Arc::clone(pod), &node);
        if bindings.is_empty() {
            return bind(&pod.pod, &pod.name, &node);
        }
        let mut plan = Plan::nothing();
        for binding in &bindings {
            if let Some(action) = bind_volume(binding, &node, view) {
                let reason = Reason::BindVolumes {
                    pod: pod.name.clone(),
                    node: node.clone(),
                };
                plan.push(reason, action);
            }
        }
        if plan.actions.is_empty() {
            self.check_volume_bindings(view);
        }
        plan
    }

    fn refuse(&mut self, pod: &Arc<PodInfo>, diagnosis: Diagnosis, view: View<'_>) -> Plan<Reason> {
        let world = World {
            cluster: &self.cluster,
            caches: view.caches,
        };
        let preemption = preempt(world, pod, &diagnosis);
        let message = report::message(&diagnosis, &preemption);
        let mut plan = Plan::nothing();
        let reason = Reason::Unschedulable {
            pod: pod.name.clone(),
            message: message.clone(),
        };
        let nominated = preemption.as_ref().ok().map(|preemption| preemption.node.as_str());
        plan.actions
            .extend(report::unschedulable(&pod.pod, &message, nominated, view.now));
        plan.push(
            reason,
            Action::event(&*pod.pod, Severity::Warning, "FailedScheduling", message),
        );
        if let Ok(preemption) = preemption {
            for victim in &preemption.victims {
                plan.actions
                    .extend(report::evict_victim(&victim.pod, &pod.pod, &preemption.node, view.now));
            }
            for displaced in &preemption.displaced {
                self.cluster.withdraw(displaced);
                self.backlog.retry(displaced, view.now);
                plan.actions
                    .extend(view.caches.pods.get(displaced).map(|pod| report::clear_nomination(pod)));
            }
            self.cluster.nominate(Arc::clone(pod), &preemption.node);
            plan.reasons.push(Reason::Preempt {
                pod: pod.name.clone(),
                node: preemption.node,
                victims: preemption.victims.iter().map(|victim| victim.name.clone()).collect(),
            });
        }
        self.backlog.wait(&pod.name, diagnosis);
        plan
    }

    /// Finds pods whose volumes are all bound, and pods whose provisioner gave up.
    fn check_volume_bindings(&mut self, view: View<'_>) {
        let waiting: Vec<ObjectKey> = self
            .assumed
            .iter()
            .filter(|(_, assumed)| assumed.volumes_until.is_some())
            .map(|(pod, _)| pod.clone())
            .collect();
        for key in waiting {
            let (Some((node, pod)), caches) = (self.cluster.placed(&key), view.caches) else {
                continue;
            };
            let claims: Vec<_> = pod
                .claims
                .iter()
                .map(|(claim, _)| caches.claims.named(&key.namespace, claim))
                .collect();
            let is_bound = |claim: &&Arc<PersistentVolumeClaim>| {
                !fit::volume_of(claim).is_empty() && claim.annotations().contains_key(BIND_COMPLETED)
            };
            if claims.iter().all(|claim| claim.as_ref().is_some_and(is_bound)) {
                self.bindable.insert(key);
            } else if claims
                .iter()
                .any(|claim| claim.is_none_or(|claim| is_abandoned(claim, node, view)))
            {
                self.forget(&key);
                self.requeue(&key, view);
            }
        }
    }

    fn expire_volume_bindings(&mut self, view: View<'_>) {
        let late: Vec<ObjectKey> = self
            .assumed
            .iter()
            .filter(|(_, assumed)| assumed.volumes_until.is_some_and(|until| until <= view.now))
            .map(|(pod, _)| pod.clone())
            .collect();
        for key in late {
            tracing::info!(pod = %key, "volumes not bound within {VOLUME_TIMEOUT}; scheduling again");
            self.forget(&key);
            self.requeue(&key, view);
        }
    }
}

/// Whether a claim no longer waits for a volume for this node.
fn is_abandoned(claim: &PersistentVolumeClaim, node: &str, view: View<'_>) -> bool {
    if !fit::volume_of(claim).is_empty() {
        return false;
    }
    let selected = claim.annotations().get(SELECTED_NODE);
    let reserved = view.caches.volumes.iter().any(|(_, volume)| fit::is_for(volume, claim));
    selected.map(String::as_str) != Some(node) && !reserved
}

fn bind(pod: &Pod, key: &ObjectKey, node: &str) -> Plan<Reason> {
    let body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": { "namespace": key.namespace, "name": key.name, "uid": pod.metadata.uid },
        "target": { "kind": "Node", "name": node },
    });
    let binding = Action::Post {
        target: Target::of(pod),
        subresource: "binding",
        body,
    };
    let event = Action::event(
        pod,
        Severity::Normal,
        "Scheduled",
        format!("Successfully assigned {key} to {node}"),
    );
    Plan {
        actions: vec![binding, event],
        deadline: None,
        reasons: vec![Reason::Bind {
            pod: key.clone(),
            node: node.to_owned(),
        }],
    }
}

/// Reserves a volume for a claim, or sets the claim's selected node; `None` if already done.
fn bind_volume(binding: &Binding, node: &str, view: View<'_>) -> Option<Action> {
    match binding {
        Binding::Static { volume, claim } => {
            let volume: &PersistentVolume = view.caches.volumes.get(&ObjectKey::cluster(volume))?;
            let claim = view.caches.claims.get(claim)?;
            if fit::is_for(volume, claim) {
                return None;
            }
            let patch = json!({
                "metadata": { "annotations": { BOUND_BY_CONTROLLER: "yes" } },
                "spec": { "claimRef": fit::reference(claim) },
            });
            Some(Action::merge_as_seen(volume, patch))
        }
        Binding::Provision { claim } => {
            let claim: &PersistentVolumeClaim = view.caches.claims.get(claim)?;
            if claim.annotations().get(SELECTED_NODE).map(String::as_str) == Some(node) {
                return None;
            }
            let patch = json!({ "metadata": { "annotations": { SELECTED_NODE: node } } });
            Some(Action::merge_as_seen(claim, patch))
        }
    }
}

fn is_storage(change: &Change) -> bool {
    fn of<K: Cached>(change: &Change) -> bool {
        change.of::<K>().is_some()
    }
    of::<PersistentVolume>(change)
        || of::<PersistentVolumeClaim>(change)
        || of::<StorageClass>(change)
        || of::<CSINode>(change)
        || of::<VolumeAttachment>(change)
}

fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    (!node.is_empty()).then_some(node)
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
