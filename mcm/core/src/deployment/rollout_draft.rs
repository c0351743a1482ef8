//! Drafts of the objects of one deployment: rules change the drafts, and each draft that differs from its original
//! becomes a patch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::deployment::MachineDeploymentStatus;
use mcm_api::{Machine, MachineDeployment, MachineSet, keys};
use serde::Serialize;
use serde_json::{Value, json};

use super::bounds::{Bounds, IN_PLACE_UPDATE, MANUAL, RECREATE};
use super::{Reason, Settings, View};
use crate::event::EventType;
use crate::merge::difference;
use crate::ownership::is_controlled_by;
use crate::remediation;
use crate::set::{is_active, is_available, is_chosen_for_deletion, min_ready_seconds, rank};
use crate::steps::{Kind, OwnerAction, Plan};

/// The draft of one set, with its machines.
pub(super) struct SetDraft {
    original: Arc<MachineSet>,
    pub set: MachineSet,
    /// The machines that the set controls, also those that are being deleted, in the order in which the set deletes
    /// them.
    pub machines: Vec<Arc<Machine>>,
    /// Names of the machines whose nodes are selected for an in-place update.
    chosen: BTreeSet<String>,
    honours_min_ready_seconds: bool,
}

impl SetDraft {
    pub fn name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn replicas(&self) -> i32 {
        self.set.spec.replicas
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.set.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub fn annotate(&mut self, key: &str, value: impl Into<String>) {
        let annotations = self.set.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.into());
    }

    pub fn is_leaving(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// Machines that exist or will exist: the set may not have created or deleted all that its spec requires. A machine
    /// that is being deleted counts until it is gone, also if it has a replacement.
    pub fn size(&self) -> i64 {
        let leaving = self.machines.iter().filter(|machine| !is_active(machine)).count();
        self.size_without_leaving() + leaving as i64
    }

    /// As [`Self::size`], without machines that are being deleted.
    pub fn size_without_leaving(&self) -> i64 {
        let active = self.machines.iter().filter(|machine| is_active(machine)).count();
        i64::from(self.replicas()).max(active as i64)
    }

    /// Machines that stay once the set has its desired size, next candidate for deletion first.
    pub fn retained(&self) -> Vec<&Arc<Machine>> {
        self.retained_of(i64::from(self.replicas()))
    }

    /// As [`Self::retained`], if the set had that size. Updated machines move to the newest set, which takes over their
    /// places, so they come last.
    pub fn retained_of(&self, size: i64) -> Vec<&Arc<Machine>> {
        let active = self.machines.iter().filter(|machine| is_active(machine));
        let moves = |machine: &&Arc<Machine>| self.is_chosen(machine) && is_updated(machine);
        let (moving, others): (Vec<_>, Vec<_>) = active.partition(moves);
        let surplus = (moving.len() + others.len()).saturating_sub(usize::try_from(size).unwrap_or_default());
        others.into_iter().chain(moving).skip(surplus).collect()
    }

    /// Whether the machine's node is selected for an in-place update.
    pub fn is_chosen(&self, machine: &Machine) -> bool {
        let name = machine.metadata.name.as_ref();
        name.is_some_and(|name| self.chosen.contains(name))
    }

    /// Whether the machine is available and remains so. A machine that is selected for an update is drained, and takes
    /// no pods until the update has ended. A machine that the autoscaler chose is deleted and replaced.
    pub fn serves(&self, machine: &Machine, now: Timestamp) -> bool {
        !self.is_chosen(machine) && self.is_available(machine, now)
    }

    /// Whether the machine is available, and will not be deleted on the request of the autoscaler or of a health check.
    /// A request that is left to the rollout deletes nothing.
    pub fn is_available(&self, machine: &Machine, now: Timestamp) -> bool {
        let requested = remediation::Rank::of(machine).is_some() && !defect!(RequestedCountAsAvailable);
        let leaves = (requested || is_chosen_for_deletion(&self.set, machine)) && !machine.status.is_kept();
        let min_ready_seconds = min_ready_seconds(&self.set, self.honours_min_ready_seconds);
        !leaves && is_available(machine, min_ready_seconds, now).is_ok()
    }

    /// How many machines a health check wants replaced once the set has its desired size, and will be.
    pub fn retained_requests(&self) -> i64 {
        let retained = self.retained().into_iter();
        retained
            .filter(|machine| remediation::Rank::of(machine).is_some())
            .count() as i64
    }

    /// How many machines serve once the set has its desired size.
    pub fn serving(&self, now: Timestamp) -> i64 {
        let retained = self.retained().into_iter();
        retained.filter(|machine| self.serves(machine, now)).count() as i64
    }

    pub fn available(&self, now: Timestamp) -> i64 {
        self.available_of(i64::from(self.replicas()), now)
    }

    /// How many would be available if the set had that size.
    pub fn available_of(&self, size: i64, now: Timestamp) -> i64 {
        let retained = self.retained_of(size).into_iter();
        retained.filter(|machine| self.is_available(machine, now)).count() as i64
    }
}

/// The state of one decision.
pub(super) struct RolloutDraft<'a> {
    pub view: &'a View,
    pub settings: Settings,
    pub now: Timestamp,
    /// The draft of the deployment.
    pub deployment: MachineDeployment,
    /// The deployment's sets, the oldest first.
    pub sets: Vec<SetDraft>,
    /// Actions that are not changes of a draft.
    pub plan: Plan<Reason>,
    machines: BTreeMap<String, Machine>,
    nodes: BTreeMap<String, Node>,
    why: BTreeMap<(Kind, String), Reason>,
    events: Vec<(EventType, &'static str, String, Reason)>,
}

impl<'a> RolloutDraft<'a> {
    pub fn new(view: &'a View, settings: Settings, now: Timestamp, sets: Vec<Arc<MachineSet>>) -> Self {
        let mut sets: Vec<SetDraft> = sets.into_iter().map(|set| draft(view, settings, set)).collect();
        sets.sort_by(|a, b| age(&a.set.metadata).cmp(&age(&b.set.metadata)));
        Self {
            view,
            settings,
            now,
            deployment: view.deployment.clone(),
            sets,
            plan: Plan::default(),
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            why: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn replicas(&self) -> i32 {
        self.deployment.spec.replicas
    }

    /// Whether a user selects the nodes of an in-place update.
    pub fn is_manual(&self) -> bool {
        let strategy = &self.deployment.spec.strategy;
        let how = strategy
            .in_place_update
            .as_ref()
            .map(|given| given.orchestration_type.as_str());
        strategy.type_ == IN_PLACE_UPDATE && how == Some(MANUAL)
    }

    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.deployment.spec)
    }

    /// The maximum number of machines of all sets together.
    pub fn limit(&self) -> i64 {
        let surge = if self.deployment.spec.strategy.type_ == RECREATE {
            0
        } else {
            self.bounds().surge
        };
        if self.replicas() == 0 {
            0
        } else {
            i64::from(self.replicas()) + surge
        }
    }

    /// Records why an object is changed. The first reason wins.
    pub fn because(&mut self, kind: Kind, name: &str, reason: Reason) {
        self.why.entry((kind, name.to_owned())).or_insert(reason);
    }

    pub fn event(&mut self, type_: EventType, reason: &'static str, message: String, why: Reason) {
        self.events.push((type_, reason, message, why));
    }

    /// How many preserved failed machines stay in their sets. They do not serve, and a rollout does not wait for them.
    pub fn kept_failed(&self) -> i64 {
        let retained = self.sets.iter().flat_map(SetDraft::retained);
        retained.filter(|machine| machine.status.is_kept_failed()).count() as i64
    }

    /// Sets the size of a set, and records the deployment's size in its annotations. Returns whether the size changed.
    pub fn resize(&mut self, position: usize, to: i32, reason: Reason) -> bool {
        let (desired, limit) = (self.replicas().to_string(), self.limit().to_string());
        let Some(set) = self.sets.get_mut(position) else {
            return false;
        };
        let (name, from) = (set.name().to_owned(), set.replicas());
        if from == to && defect!(SizeNotedWithOwnChangeOnly) {
            return false;
        }
        set.annotate(keys::DESIRED_REPLICAS_ANNOTATION, desired);
        set.annotate(keys::MAX_REPLICAS_ANNOTATION, limit);
        set.set.spec.replicas = to;
        if from == to {
            self.because(Kind::Set, &name, Reason::SizeNoted(name.clone()));
            return false;
        }
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} machine set {name} to {to}");
        self.because(Kind::Set, &name, reason.clone());
        self.event(EventType::Normal, "ScalingMachineSet", message, reason);
        true
    }

    /// Applies the drafts of machines to the sets' lists, and ranks these again.
    pub fn rerank(&mut self) {
        if self.machines.is_empty() {
            return;
        }
        for set in &mut self.sets {
            for machine in &mut set.machines {
                let draft = machine.metadata.name.as_ref().and_then(|name| self.machines.get(name));
                if let Some(draft) = draft {
                    *machine = Arc::new(draft.clone());
                }
            }
            rank(&mut set.machines);
        }
    }

    /// The draft of the machine.
    pub fn machine(&mut self, machine: &Machine) -> &mut Machine {
        let name = machine.metadata.name.clone().unwrap_or_default();
        self.machines.entry(name).or_insert_with(|| machine.clone())
    }

    /// The machine's node, with the changes of this draft; `None`: there is no node, or its label names another machine.
    pub fn node_of(&self, machine: &Machine) -> Option<&Node> {
        let name = machine.metadata.labels.as_ref()?.get(keys::NODE_LABEL)?;
        let known = self.view.nodes.as_ref()?.get(name)?;
        let owner = known
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(keys::MACHINE_NAME_LABEL));
        (owner == machine.metadata.name.as_ref()).then(|| self.nodes.get(name).unwrap_or(known))
    }

    /// The draft of the machine's node if the node `needs` a change: most nodes need none, and are not copied.
    pub fn node_to_change(&mut self, machine: &Machine, needs: impl Fn(&Node) -> bool) -> Option<&mut Node> {
        let node = self.node_of(machine).filter(|node| needs(node))?;
        let name = node.metadata.name.clone().unwrap_or_default();
        if !self.nodes.contains_key(&name) {
            let copy = node.clone();
            self.nodes.insert(name.clone(), copy);
        }
        self.nodes.get_mut(&name)
    }

    /// The plan: patches for all drafts that differ from their originals, events, and the status.
    pub fn finish(mut self, status: Option<MachineDeploymentStatus>) -> Plan<Reason> {
        let mut plan = std::mem::take(&mut self.plan);
        for (name, node) in std::mem::take(&mut self.nodes) {
            let known = self.view.nodes.as_ref().and_then(|nodes| nodes.get(&name)).cloned();
            if let Some(known) = known {
                self.emit(&mut plan, Kind::Node, &name, &*known, &node, &known.metadata);
            }
        }
        let machines = std::mem::take(&mut self.machines);
        let view = self.view.machines.iter().filter(|_| !machines.is_empty());
        let originals: BTreeMap<_, _> = view
            .map(|machine| (machine.metadata.name.clone().unwrap_or_default(), Arc::clone(machine)))
            .collect();
        for (name, machine) in machines {
            if let Some(known) = originals.get(&name) {
                self.emit(&mut plan, Kind::Machine, &name, &**known, &machine, &known.metadata);
            }
        }
        let known = &self.view.deployment;
        let name = self.name().to_owned();
        self.emit(
            &mut plan,
            Kind::Deployment,
            &name,
            known,
            &self.deployment,
            &known.metadata,
        );
        for set in &self.sets {
            let original = &set.original;
            self.emit(
                &mut plan,
                Kind::Set,
                set.name(),
                &**original,
                &set.set,
                &original.metadata,
            );
        }
        for (type_, reason, message, why) in std::mem::take(&mut self.events) {
            plan.push(OwnerAction::RecordEvent { type_, reason, message }, why);
        }
        // A plan with changes writes no status: the next decision follows at once and observes them. Actions that may
        // fail forever, such as a taint on a Node, do not prevent the status write.
        if let Some(status) = status.filter(|_| plan.steps.iter().all(|step| step.action.may_fail())) {
            self.warn_of_raised_bounds(&mut plan, &status);
            self.write_status(&mut plan, &status);
        }
        plan
    }

    /// Warns once for each spec that allows neither surge nor unavailable machines.
    fn warn_of_raised_bounds(&self, plan: &mut Plan<Reason>, status: &MachineDeploymentStatus) {
        let is_new = status.observed_generation != self.view.deployment.status.observed_generation;
        if !is_new || !Bounds::are_raised(&self.view.deployment.spec) {
            return;
        }
        let action = OwnerAction::RecordEvent {
            type_: EventType::Warning,
            reason: "MaxUnavailableIsOne",
            message: Reason::BoundsRaised.to_string(),
        };
        plan.push(action, Reason::BoundsRaised);
    }

    /// Adds a status write to the plan, if the status differs.
    pub fn write_status(&self, plan: &mut Plan<Reason>, status: &MachineDeploymentStatus) {
        let known = &self.view.deployment;
        let Some(change) = difference(&known.status, status) else {
            return;
        };
        let patch = json!({
            "metadata": { "resourceVersion": known.metadata.resource_version },
            "status": change,
        });
        let action = OwnerAction::WriteStatus {
            kind: Kind::Deployment,
            name: self.name().to_owned(),
            patch,
        };
        plan.push(action, Reason::Status);
    }

    fn emit<T: Serialize + PartialEq>(
        &self,
        plan: &mut Plan<Reason>,
        kind: Kind,
        name: &str,
        old: &T,
        new: &T,
        metadata: &ObjectMeta,
    ) {
        let Some(mut patch) = difference(old, new) else { return };
        if let Value::Object(fields) = &mut patch {
            fields.remove("status");
        }
        patch["metadata"]["resourceVersion"] = json!(metadata.resource_version);
        let name = name.to_owned();
        let reason = self.why.get(&(kind, name.clone())).cloned().unwrap_or(Reason::Status);
        plan.push(OwnerAction::Patch { kind, name, patch }, reason);
    }
}

fn draft(view: &View, settings: Settings, original: Arc<MachineSet>) -> SetDraft {
    let mut machines: Vec<Arc<Machine>> = view
        .machines
        .iter()
        .filter(|machine| is_controlled_by(&machine.metadata, &original.metadata))
        .cloned()
        .collect();
    rank(&mut machines);
    let in_place = view.deployment.spec.strategy.type_ == IN_PLACE_UPDATE;
    let chosen = machines.iter().filter(|machine| in_place && is_chosen(view, machine));
    SetDraft {
        chosen: chosen.filter_map(|machine| machine.metadata.name.clone()).collect(),
        set: MachineSet::clone(&original),
        original,
        machines,
        honours_min_ready_seconds: settings.honours_min_ready_seconds,
    }
}

/// Whether the machine's node is selected for an in-place update.
fn is_chosen(view: &View, machine: &Machine) -> bool {
    let labels = machine.metadata.labels.as_ref();
    let name = labels.and_then(|labels| labels.get(keys::NODE_LABEL));
    let node = name.and_then(|name| view.nodes.as_ref()?.get(name));
    let labels = node.and_then(|node| node.metadata.labels.as_ref());
    labels.is_some_and(|labels| labels.contains_key(keys::SELECTED_FOR_UPDATE_LABEL))
}

/// Whether the node conditions in the machine's status report a successful update.
pub(super) fn is_updated(machine: &Machine) -> bool {
    machine.status.conditions.iter().any(|condition| {
        condition.type_ == keys::IN_PLACE_UPDATE_CONDITION
            && condition.reason.as_deref() == Some(keys::UPDATE_SUCCESSFUL_REASON)
    })
}

/// Sort key: the oldest first, then by name.
pub(super) fn age(metadata: &ObjectMeta) -> (Option<Timestamp>, Option<&String>) {
    (
        metadata.creation_timestamp.as_ref().map(|time| time.0),
        metadata.name.as_ref(),
    )
}
