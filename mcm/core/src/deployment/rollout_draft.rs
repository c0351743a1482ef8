//! The objects as they are to be: rules change drafts, and what differs from the originals becomes a patch each.

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
use crate::set::{goes_as_chosen, is_active, is_available, rank};
use crate::steps::{Act, Kind, Plan};

/// One set with its machines.
pub(super) struct SetDraft {
    original: Arc<MachineSet>,
    /// As it is to be.
    pub set: MachineSet,
    /// Those that it controls, in the order in which they would be deleted; those that are being deleted among them.
    pub machines: Vec<Arc<Machine>>,
    /// Names of those whose nodes are chosen for an update in place.
    chosen: BTreeSet<String>,
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

    /// Machines that there are or will be: the set may not have made or deleted yet what it is told to. One that is being
    /// deleted is there until it is gone, also where another one comes in its place.
    pub fn size(&self) -> i64 {
        let leaving = self.machines.iter().filter(|machine| !is_active(machine)).count();
        self.size_without_leaving() + leaving as i64
    }

    /// The same without those that are being deleted.
    pub fn size_without_leaving(&self) -> i64 {
        let active = self.machines.iter().filter(|machine| is_active(machine)).count();
        i64::from(self.replicas()).max(active as i64)
    }

    /// Machines that stay when the set has deleted what it is told to, in the order in which they would go next.
    pub fn staying(&self) -> Vec<&Arc<Machine>> {
        self.staying_of(i64::from(self.replicas()))
    }

    /// The same if the set had that size. Those that are updated go to another set with their places, not to nobody.
    fn staying_of(&self, size: i64) -> Vec<&Arc<Machine>> {
        let active = self.machines.iter().filter(|machine| is_active(machine));
        let moves = |machine: &&Arc<Machine>| self.is_chosen(machine) && is_updated(machine);
        let (moving, others): (Vec<_>, Vec<_>) = active.partition(moves);
        let surplus = (moving.len() + others.len()).saturating_sub(usize::try_from(size).unwrap_or_default());
        others.into_iter().chain(moving).skip(surplus).collect()
    }

    /// Whether the machine's node is chosen for an update in place.
    pub fn is_chosen(&self, machine: &Machine) -> bool {
        let name = machine.metadata.name.as_ref();
        name.is_some_and(|name| self.chosen.contains(name))
    }

    /// Whether the machine is available, and stays so: one that is chosen for an update is drained, or will be, and takes no
    /// pods before the update has ended; one that the autoscaler chose goes, and another one comes for it.
    pub fn serves(&self, machine: &Machine, now: Timestamp) -> bool {
        !self.is_chosen(machine) && self.is_available(machine, now)
    }

    /// Whether the machine is available, and no machine that goes although its set's size leaves it a place.
    fn is_available(&self, machine: &Machine, now: Timestamp) -> bool {
        let goes = goes_as_chosen(&self.set, machine) && !machine.status.is_kept();
        !goes && is_available(machine, self.set.spec.min_ready_seconds, now).is_ok()
    }

    /// How many machines serve when the set has deleted what it is told to.
    pub fn serving(&self, now: Timestamp) -> i64 {
        let staying = self.staying().into_iter();
        staying.filter(|machine| self.serves(machine, now)).count() as i64
    }

    pub fn available(&self, now: Timestamp) -> i64 {
        self.available_of(i64::from(self.replicas()), now)
    }

    /// How many would be available if the set had that size.
    pub fn available_of(&self, size: i64, now: Timestamp) -> i64 {
        self.count_of(size, |machine| self.is_available(machine, now))
    }

    /// How many would serve if the set had that size.
    pub fn serving_of(&self, size: i64, now: Timestamp) -> i64 {
        self.count_of(size, |machine| self.serves(machine, now))
    }

    /// The machine that only the last of so many places keeps; `None`: nobody needs it yet.
    pub fn last_of(&self, size: i64) -> Option<Arc<Machine>> {
        let (with, without) = (self.staying_of(size), self.staying_of(size - 1));
        with.first().filter(|_| with.len() > without.len()).copied().cloned()
    }

    fn count_of(&self, size: i64, counts: impl Fn(&Machine) -> bool) -> i64 {
        let staying = self.staying_of(size).into_iter();
        staying.filter(|machine| counts(machine)).count() as i64
    }
}

/// One decision under way.
pub(super) struct RolloutDraft<'a> {
    pub view: &'a View,
    pub settings: Settings,
    pub now: Timestamp,
    /// The deployment as it is to be.
    pub deployment: MachineDeployment,
    /// The deployment's sets, the oldest first.
    pub sets: Vec<SetDraft>,
    /// What is not a change of one of the drafts.
    pub plan: Plan<Reason>,
    machines: BTreeMap<String, Machine>,
    nodes: BTreeMap<String, Node>,
    why: BTreeMap<(Kind, String), Reason>,
    events: Vec<(EventType, &'static str, String, Reason)>,
}

impl<'a> RolloutDraft<'a> {
    pub fn new(view: &'a View, settings: Settings, now: Timestamp, sets: Vec<Arc<MachineSet>>) -> Self {
        let mut sets: Vec<SetDraft> = sets.into_iter().map(|set| draft(view, set)).collect();
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

    /// Whether a person selects the nodes that are updated in place.
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

    /// Most machines of all sets together.
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

    /// Says why an object is changed. The first reason stands.
    pub fn because(&mut self, kind: Kind, name: &str, reason: Reason) {
        self.why.entry((kind, name.to_owned())).or_insert(reason);
    }

    pub fn event(&mut self, type_: EventType, word: &'static str, message: String, why: Reason) {
        self.events.push((type_, word, message, why));
    }

    /// How many machines failed, are preserved and stay in their sets: they serve nobody until they go, and nobody waits for
    /// them.
    pub fn kept_failed(&self) -> i64 {
        let staying = self.sets.iter().flat_map(SetDraft::staying);
        staying.filter(|machine| machine.status.is_kept_failed()).count() as i64
    }

    /// Gives a set its size, and notes the deployment's there. Answers whether the size changed.
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
        let way = if to > from { "up" } else { "down" };
        let message = format!("Scaled {way} machine set {name} to {to}");
        self.because(Kind::Set, &name, reason.clone());
        self.event(EventType::Normal, "ScalingMachineSet", message, reason);
        true
    }

    /// What is changed of machines counts at once where they are ranked.
    pub fn rank_anew(&mut self) {
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

    /// The machine as it is to be.
    pub fn machine(&mut self, machine: &Machine) -> &mut Machine {
        let name = machine.metadata.name.clone().unwrap_or_default();
        self.machines.entry(name).or_insert_with(|| machine.clone())
    }

    /// The node of a machine, as it is to be; `None`: there is none, or it does not say that it is this machine's.
    pub fn node_of(&mut self, machine: &Machine) -> Option<&mut Node> {
        let name = machine.metadata.labels.as_ref()?.get(keys::NODE_LABEL)?;
        let known = self.view.nodes.as_ref()?.get(name)?;
        let owner = known
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(keys::MACHINE_NAME_LABEL));
        if owner != machine.metadata.name.as_ref() {
            return None;
        }
        Some(self.nodes.entry(name.clone()).or_insert_with(|| Node::clone(known)))
    }

    /// Patches for everything that differs, and the status.
    pub fn finish(mut self, status: Option<MachineDeploymentStatus>) -> Plan<Reason> {
        let mut plan = std::mem::take(&mut self.plan);
        for (name, node) in std::mem::take(&mut self.nodes) {
            let known = self.view.nodes.as_ref().and_then(|nodes| nodes.get(&name)).cloned();
            if let Some(known) = known {
                self.emit(&mut plan, Kind::Node, &name, &*known, &node, &known.metadata);
            }
        }
        let originals: BTreeMap<_, _> = self
            .view
            .machines
            .iter()
            .map(|machine| (machine.metadata.name.clone().unwrap_or_default(), Arc::clone(machine)))
            .collect();
        for (name, machine) in std::mem::take(&mut self.machines) {
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
            plan.push(Act::RecordEvent { type_, reason, message }, why);
        }
        // What is changed first is observed by the next decision, which follows at once. What may be refused without end,
        // such as a mark on a Node, does not keep the status from saying what is.
        if let Some(status) = status.filter(|_| plan.steps.iter().all(|step| step.act.may_fail())) {
            self.write_status(&mut plan, &status);
        }
        plan
    }

    /// Writes the status, whatever else the plan holds.
    pub fn write_status(&self, plan: &mut Plan<Reason>, status: &MachineDeploymentStatus) {
        let known = &self.view.deployment;
        let Some(change) = difference(&known.status, status) else {
            return;
        };
        let patch = json!({
            "metadata": { "resourceVersion": known.metadata.resource_version },
            "status": change,
        });
        let act = Act::WriteStatus {
            kind: Kind::Deployment,
            name: self.name().to_owned(),
            patch,
        };
        plan.push(act, Reason::Status);
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
        plan.push(Act::Patch { kind, name, patch }, reason);
    }
}

fn draft(view: &View, original: Arc<MachineSet>) -> SetDraft {
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
    }
}

/// Whether the node that the machine names is chosen for an update in place.
fn is_chosen(view: &View, machine: &Machine) -> bool {
    let labels = machine.metadata.labels.as_ref();
    let name = labels.and_then(|labels| labels.get(keys::NODE_LABEL));
    let node = name.and_then(|name| view.nodes.as_ref()?.get(name));
    let labels = node.and_then(|node| node.metadata.labels.as_ref());
    labels.is_some_and(|labels| labels.contains_key(keys::SELECTED_FOR_UPDATE_LABEL))
}

/// Whether the machine's copy of the node's conditions says that the update worked.
pub(super) fn is_updated(machine: &Machine) -> bool {
    machine.status.conditions.iter().any(|condition| {
        condition.type_ == keys::IN_PLACE_UPDATE_CONDITION
            && condition.reason.as_deref() == Some(keys::UPDATE_SUCCESSFUL_REASON)
    })
}

/// Older ones first, then by name.
pub(super) fn age(metadata: &ObjectMeta) -> (Option<Timestamp>, Option<&String>) {
    (
        metadata.creation_timestamp.as_ref().map(|time| time.0),
        metadata.name.as_ref(),
    )
}
