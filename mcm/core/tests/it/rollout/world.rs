//! A world of objects in which the decisions about a deployment and its sets are carried out, with machines that boot,
//! serve, fail and go, and a referee that looks after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::machine::LastOperation;
use mcm_api::{Machine, MachineDeployment, MachineSet, Phase, State, keys};
use mcm_core::deployment::{self, Bounds};
use mcm_core::set;
use mcm_core::steps::{Act, Kind, Plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fixtures::start;

/// Numbers that look random and repeat.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit.max(1) as u64) as usize
    }
}

/// Who acts next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    Deployment,
    Set(String),
    Machine(String),
}

pub struct World {
    pub deployment: Option<MachineDeployment>,
    pub sets: BTreeMap<String, Arc<MachineSet>>,
    pub machines: BTreeMap<String, Arc<Machine>>,
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub now: Timestamp,
    pub narrative: Vec<String>,
    /// Names of classes whose machines never join: they fail instead.
    pub broken: BTreeSet<String>,
    /// How many steps a machine that is deleted still takes.
    pub drain: usize,
    pub draining: BTreeMap<String, usize>,
    /// Machines made in all.
    pub made: usize,
    /// No bound is looked at.
    pub lenient: bool,
    pub taken: Option<String>,
    /// How many must be available; after a change of the spec not before they once were.
    floor: i64,
    /// How many there may be; after a change of the spec not before the sets were told.
    ceiling: i64,
    revision: u64,
    ids: u64,
}

impl World {
    pub fn new(mut deployment: MachineDeployment) -> Self {
        deployment.metadata.uid = Some("uid-md".to_owned());
        deployment.metadata.generation = Some(1);
        deployment.metadata.creation_timestamp = Some(Time(start()));
        deployment.metadata.resource_version = Some("1".to_owned());
        Self {
            deployment: Some(deployment),
            sets: BTreeMap::new(),
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            now: start(),
            narrative: Vec::new(),
            broken: BTreeSet::new(),
            drain: 1,
            draining: BTreeMap::new(),
            made: 0,
            lenient: false,
            taken: None,
            floor: 0,
            ceiling: 0,
            revision: 1,
            ids: 0,
        }
    }

    pub fn tell(&mut self, line: impl Into<String>) {
        self.narrative.push(line.into());
    }

    /// A person edits the deployment.
    pub fn edit(&mut self, what: &str, change: impl Fn(&mut MachineDeployment)) {
        let mut deployment = self.deployment.clone().unwrap();
        let before = deployment.spec.clone();
        change(&mut deployment);
        if deployment.spec != before {
            *deployment.metadata.generation.get_or_insert(0) += 1;
        }
        self.bump(&mut deployment.metadata);
        self.deployment = Some(deployment);
        self.tell(format!("a person: {what}"));
    }

    pub fn edit_machine(&mut self, name: &str, change: impl Fn(&mut Machine)) {
        let mut machine = Machine::clone(&self.machines[name]);
        change(&mut machine);
        self.bump(&mut machine.metadata);
        self.machines.insert(name.to_owned(), Arc::new(machine));
    }

    pub fn edit_node(&mut self, name: &str, change: impl Fn(&mut Node)) {
        let mut node = Node::clone(&self.nodes[name]);
        change(&mut node);
        self.bump(&mut node.metadata);
        self.nodes.insert(name.to_owned(), Arc::new(node));
    }

    pub fn actors(&self) -> Vec<Actor> {
        let mut actors = vec![Actor::Deployment];
        actors.extend(self.sets.keys().cloned().map(Actor::Set));
        actors.extend(self.machines.keys().cloned().map(Actor::Machine));
        actors
    }

    /// Lets one act; answers whether it did anything.
    pub fn act(&mut self, actor: &Actor) -> bool {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        let acted = match actor {
            Actor::Deployment => self.act_deployment(),
            Actor::Set(name) => self.act_set(name),
            Actor::Machine(name) => self.act_machine(name),
        };
        self.referee();
        acted
    }

    /// All act in their order until nobody does anything.
    pub fn settle(&mut self) {
        for _ in 0..2000 {
            let mut acted = false;
            for actor in self.actors() {
                acted |= self.act(&actor);
            }
            if !acted {
                return;
            }
        }
        panic!("it does not come to rest:\n{}", self.tail());
    }

    /// One after the other acts, in any order, until nobody does anything.
    pub fn settle_anyhow(&mut self, dice: &mut Dice) {
        for _ in 0..200_000 {
            let actors = self.actors();
            let actor = actors[dice.below(actors.len())].clone();
            if !self.act(&actor) {
                let mut acted = false;
                for actor in self.actors() {
                    acted |= self.act(&actor);
                }
                if !acted {
                    return;
                }
            }
        }
        panic!("it does not come to rest:\n{}", self.tail());
    }

    /// So many act, in any order.
    pub fn stir(&mut self, dice: &mut Dice, times: usize) {
        for _ in 0..times {
            let actors = self.actors();
            let actor = actors[dice.below(actors.len())].clone();
            self.act(&actor);
        }
    }

    pub fn tail(&self) -> String {
        let from = self.narrative.len().saturating_sub(60);
        self.narrative[from..].join("\n")
    }

    pub fn deployment_view(&self) -> Option<deployment::View> {
        Some(deployment::View {
            deployment: self.deployment.clone()?,
            sets: self.sets.values().cloned().collect(),
            machines: self.machines.values().cloned().collect(),
            nodes: Some(self.nodes.clone()),
            taken: self.taken.clone(),
            ..deployment::View::default()
        })
    }

    pub fn set_view(&self, name: &str) -> Option<set::View> {
        Some(set::View {
            set: MachineSet::clone(self.sets.get(name)?),
            machines: self.machines.values().cloned().collect(),
            deployment: self.deployment.clone().map(Arc::new),
            ..set::View::default()
        })
    }

    fn act_deployment(&mut self) -> bool {
        let Some(view) = self.deployment_view() else {
            return false;
        };
        self.taken = None;
        let plan = deployment::decide(&view, deployment::Settings::default(), self.now);
        let metadata = view.deployment.metadata;
        self.perform(plan, "deployment", &metadata)
    }

    fn act_set(&mut self, name: &str) -> bool {
        let Some(view) = self.set_view(name) else { return false };
        let plan = set::decide(&view, self.now);
        let metadata = view.set.metadata;
        self.perform(plan, &format!("set {name}"), &metadata)
    }

    /// Carries out a plan of somebody else's.
    pub fn carry_out<R: std::fmt::Display>(&mut self, plan: Plan<R>, who: &str, owner: &ObjectMeta) {
        self.perform(plan, who, owner);
    }

    fn perform<R: std::fmt::Display>(&mut self, plan: Plan<R>, who: &str, owner: &ObjectMeta) -> bool {
        let acted = !plan.steps.is_empty();
        let mut told = String::new();
        for step in plan.steps {
            let line = format!("{who}: {}", step.reason);
            if line != told && !matches!(step.act, Act::RecordEvent { .. } | Act::WriteStatus { .. }) {
                self.tell(line.clone());
                told = line;
            }
            self.step(step.act, owner);
        }
        acted
    }

    fn step(&mut self, act: Act, owner: &ObjectMeta) {
        match act {
            Act::Patch { kind, name, patch } | Act::WriteStatus { kind, name, patch } => {
                self.patch(kind, &name, &patch)
            }
            Act::Adopt { kind, name, patch } => {
                assert!(owner.deletion_timestamp.is_none());
                self.patch(kind, &name, &patch);
            }
            Act::Delete {
                kind,
                name,
                uid,
                resource_version,
            } => self.delete(kind, &name, uid, resource_version),
            Act::CreateSet(set) => {
                let mut set = *set;
                let name = set.metadata.name.clone().unwrap();
                if self.sets.contains_key(&name) {
                    self.taken = Some(name);
                    return;
                }
                self.born(&mut set.metadata);
                self.sets.insert(name, Arc::new(set));
            }
            Act::CreateMachines(machines) => {
                for mut machine in machines {
                    let prefix = machine.metadata.generate_name.clone().unwrap();
                    self.born(&mut machine.metadata);
                    let name = format!("{prefix}{}", self.ids);
                    machine.metadata.name = Some(name.clone());
                    self.made += 1;
                    self.machines.insert(name, Arc::new(machine));
                    self.check_size();
                }
            }
            Act::RecordEvent { .. } => {}
        }
    }

    fn born(&mut self, metadata: &mut ObjectMeta) {
        self.ids += 1;
        metadata.uid = Some(format!("uid-{}", self.ids));
        metadata.generation = Some(1);
        metadata.creation_timestamp = Some(Time(self.now));
        self.bump(metadata);
    }

    fn bump(&mut self, metadata: &mut ObjectMeta) {
        self.revision += 1;
        metadata.resource_version = Some(self.revision.to_string());
    }

    fn patch(&mut self, kind: Kind, name: &str, patch: &Value) {
        self.revision += 1;
        let revision = self.revision;
        match kind {
            Kind::Deployment => {
                let new: MachineDeployment = patched(self.deployment.as_ref().unwrap(), patch, revision);
                let gone = ended(&new.metadata);
                self.deployment = (!gone).then_some(new);
            }
            Kind::Set => {
                let new: MachineSet = patched(&*self.sets[name], patch, revision);
                if ended(&new.metadata) {
                    self.sets.remove(name);
                } else {
                    self.sets.insert(name.to_owned(), Arc::new(new));
                }
            }
            Kind::Machine => {
                let new: Machine = patched(&*self.machines[name], patch, revision);
                self.machines.insert(name.to_owned(), Arc::new(new));
            }
            Kind::Node => {
                let new: Node = patched(&*self.nodes[name], patch, revision);
                self.nodes.insert(name.to_owned(), Arc::new(new));
            }
        }
    }

    fn delete(&mut self, kind: Kind, name: &str, uid: Option<String>, version: Option<String>) {
        assert!(
            uid.is_some() && version.is_some(),
            "a deletion names the copy that it was decided on"
        );
        let now = Time(self.now);
        match kind {
            Kind::Set => {
                let mut set = MachineSet::clone(&self.sets.remove(name).unwrap());
                assert_eq!((&set.metadata.uid, &set.metadata.resource_version), (&uid, &version));
                if set.metadata.finalizers.iter().flatten().next().is_some() {
                    set.metadata.deletion_timestamp = Some(now);
                    self.bump(&mut set.metadata);
                    self.sets.insert(name.to_owned(), Arc::new(set));
                }
            }
            Kind::Machine => {
                let mut machine = Machine::clone(&self.machines[name]);
                assert_eq!(
                    (&machine.metadata.uid, &machine.metadata.resource_version),
                    (&uid, &version)
                );
                assert!(machine.metadata.deletion_timestamp.is_none(), "{name} is deleted twice");
                let served = machine.status.current_status.phase == Some(Phase::Running);
                machine.metadata.deletion_timestamp = Some(now);
                self.bump(&mut machine.metadata);
                self.machines.insert(name.to_owned(), Arc::new(machine));
                self.draining.insert(name.to_owned(), self.drain);
                if served {
                    self.check_availability(name);
                }
            }
            Kind::Deployment | Kind::Node => panic!("nobody deletes a {kind:?}"),
        }
    }

    /// A machine boots, serves, is updated in place, or goes.
    fn act_machine(&mut self, name: &str) -> bool {
        let Some(machine) = self.machines.get(name).cloned() else {
            return false;
        };
        if machine.metadata.deletion_timestamp.is_some() {
            let left = self.draining.entry(name.to_owned()).or_insert(0);
            if *left > 0 {
                *left -= 1;
                return true;
            }
            self.machines.remove(name);
            self.nodes.remove(name);
            self.draining.remove(name);
            return true;
        }
        match machine.status.current_status.phase {
            None => self.enter(name, Phase::Pending),
            Some(Phase::Pending) if self.broken.contains(&machine.spec.class.name) => self.enter(name, Phase::Failed),
            Some(Phase::Pending) => {
                self.join(name);
                self.enter(name, Phase::Running);
            }
            Some(Phase::Running | Phase::InPlaceUpdating | Phase::InPlaceUpdateSuccessful) => return self.update(name),
            _ => return false,
        }
        true
    }

    pub fn enter(&mut self, name: &str, phase: Phase) {
        let now = Time(self.now);
        self.tell(format!("machine {name}: {phase}"));
        if phase == Phase::Failed && self.machines[name].status.current_status.phase == Some(Phase::Running) {
            self.floor -= 1;
        }
        self.edit_machine(name, |machine| {
            let state = if phase == Phase::Failed {
                State::Failed
            } else {
                State::Successful
            };
            machine.status.current_status.phase = Some(phase.clone());
            machine.status.current_status.last_update_time = Some(now.clone());
            machine.status.last_operation = Some(LastOperation {
                state: Some(state),
                ..LastOperation::default()
            });
        });
    }

    fn join(&mut self, name: &str) {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.labels = Some(BTreeMap::from([(keys::MACHINE_NAME_LABEL.to_owned(), name.to_owned())]));
        self.bump(&mut node.metadata);
        self.nodes.insert(name.to_owned(), Arc::new(node));
        self.edit_machine(name, |machine| {
            let labels = machine.metadata.labels.get_or_insert_default();
            labels.insert(keys::NODE_LABEL.to_owned(), name.to_owned());
        });
    }

    /// The machine controller and the node's agent, a step at a time: selected, drained and updating, updated.
    fn update(&mut self, name: &str) -> bool {
        let Some(node) = self.nodes.get(name).cloned() else {
            return false;
        };
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let selected = labels.contains_key(keys::SELECTED_FOR_UPDATE_LABEL);
        let done = labels.contains_key(keys::UPDATE_RESULT_LABEL);
        let phase = self.machines[name].status.current_status.phase.clone();
        match phase {
            Some(Phase::Running) if selected && !done => {
                self.edit_node(name, |node| {
                    let spec = node.spec.get_or_insert_default();
                    let cordoned = spec.unschedulable.replace(true).unwrap_or(false);
                    let annotations = node.metadata.annotations.get_or_insert_default();
                    let key = keys::CORDONED_BEFORE_UPDATE_ANNOTATION.to_owned();
                    annotations.entry(key).or_insert_with(|| cordoned.to_string());
                });
                self.enter(name, Phase::InPlaceUpdating);
                true
            }
            Some(Phase::InPlaceUpdating) => {
                let condition = NodeCondition {
                    type_: keys::IN_PLACE_UPDATE_CONDITION.to_owned(),
                    status: "True".to_owned(),
                    reason: Some(keys::UPDATE_SUCCESSFUL_REASON.to_owned()),
                    ..NodeCondition::default()
                };
                self.edit_node(name, |node| {
                    let labels = node.metadata.labels.get_or_insert_default();
                    labels.insert(keys::UPDATE_RESULT_LABEL.to_owned(), keys::UPDATE_SUCCESSFUL.to_owned());
                });
                self.edit_machine(name, |machine| machine.status.conditions = vec![condition.clone()]);
                self.enter(name, Phase::InPlaceUpdateSuccessful);
                true
            }
            Some(Phase::InPlaceUpdateSuccessful) if !selected => {
                self.edit_machine(name, |machine| machine.status.conditions.clear());
                self.enter(name, Phase::Running);
                true
            }
            _ => false,
        }
    }

    fn numbers(&self) -> (i64, Bounds) {
        let Some(deployment) = &self.deployment else {
            return (0, Bounds::default());
        };
        (i64::from(deployment.spec.replicas), Bounds::of(&deployment.spec))
    }

    pub fn live(&self) -> Vec<&Machine> {
        self.machines
            .values()
            .map(|machine| &**machine)
            .filter(|machine| machine.metadata.deletion_timestamp.is_none())
            .collect()
    }

    pub fn available(&self) -> i64 {
        let serves = |machine: &&&Machine| machine.status.current_status.phase == Some(Phase::Running);
        self.live().iter().filter(serves).count() as i64
    }

    fn check_size(&mut self) {
        let (replicas, bounds) = self.numbers();
        let count = self.live().len() as i64;
        if !self.lenient && count > self.ceiling.max(replicas + bounds.surge) {
            panic!(
                "{count} machines, {replicas} wanted, surge {}:\n{}",
                bounds.surge,
                self.tail()
            );
        }
    }

    fn check_availability(&mut self, removed: &str) {
        let (replicas, bounds) = self.numbers();
        let Some(deployment) = &self.deployment else { return };
        if self.lenient
            || deployment.metadata.deletion_timestamp.is_some()
            || deployment.spec.strategy.type_ == "Recreate"
        {
            return;
        }
        let lost = self
            .live()
            .iter()
            .filter(|machine| machine.status.current_status.phase == Some(Phase::Failed))
            .count();
        if self.available() + (lost as i64) < self.floor.min(replicas - bounds.unavailable) {
            panic!(
                "{} of {replicas} available, {} may lack, after {removed} went:\n{}",
                self.available(),
                bounds.unavailable,
                self.tail()
            );
        }
    }

    /// What was ordered before the bound was raised may still be carried out.
    fn raise_floor(&mut self) {
        let (replicas, bounds) = self.numbers();
        let least = replicas - bounds.unavailable;
        let ordered = self.sets.iter().any(|(name, set)| {
            let owned = self
                .live()
                .into_iter()
                .filter(|machine| owner(machine).as_ref() == Some(name))
                .count();
            owned as i32 > set.spec.replicas
        });
        let most = replicas + bounds.surge;
        let mut told = 0;
        for (name, set) in &self.sets {
            let owned = self
                .live()
                .into_iter()
                .filter(|machine| owner(machine).as_ref() == Some(name))
                .count();
            told += i64::from(set.spec.replicas).max(owned as i64);
        }
        self.ceiling = if told <= most { most } else { self.ceiling.max(most) };
        self.floor = if !ordered && self.available() >= least {
            least
        } else {
            self.floor.min(least)
        };
    }

    fn referee(&mut self) {
        self.raise_floor();
        for set in self.sets.values() {
            assert!(set.spec.replicas >= 0, "{}", self.tail());
        }
        let Some(deployment) = &self.deployment else { return };
        if self.lenient || deployment.spec.strategy.type_ != "Recreate" {
            return;
        }
        let sets: BTreeSet<_> = self
            .live()
            .iter()
            .filter_map(|machine| {
                machine
                    .metadata
                    .owner_references
                    .as_ref()?
                    .first()
                    .map(|owner| owner.name.clone())
            })
            .collect();
        assert!(sets.len() <= 1, "recreate mixes templates:\n{}", self.tail());
    }

    /// Everybody is Running, of that class, and nobody else is there.
    pub fn assert_settled(&self, class: &str) {
        let replicas = self.deployment.as_ref().unwrap().spec.replicas as usize;
        let wrong: Vec<_> = self
            .machines
            .values()
            .filter(|machine| machine.status.current_status.phase != Some(Phase::Running))
            .map(|machine| {
                (
                    machine.metadata.name.clone(),
                    machine.status.current_status.phase.clone(),
                )
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{}", self.tail());
        assert_eq!(self.machines.len(), replicas, "{}", self.tail());
        let of: BTreeMap<_, _> = self
            .sets
            .iter()
            .map(|(name, set)| (name.clone(), set.clone()))
            .collect();
        for machine in self.machines.values() {
            let owner = machine.metadata.owner_references.as_ref().unwrap()[0].name.clone();
            assert_eq!(of[&owner].spec.template.spec.class.name, class, "{}", self.tail());
        }
        let status = &self.deployment.as_ref().unwrap().status;
        assert_eq!(status.updated_replicas as usize, replicas, "{}", self.tail());
        assert_eq!(status.available_replicas as usize, replicas, "{}", self.tail());
        let progressing = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Progressing")
            .unwrap();
        assert_eq!(progressing.reason, "NewMachineSetAvailable", "{}", self.tail());
        for node in self.nodes.values() {
            let annotations = node.metadata.annotations.clone().unwrap_or_default();
            assert!(
                !annotations.contains_key(keys::SCALE_DOWN_DISABLED_ANNOTATION),
                "{}",
                self.tail()
            );
            let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
            assert!(
                taints.iter().all(|taint| taint.key != keys::PREFER_NO_SCHEDULE),
                "{}",
                self.tail()
            );
        }
    }
}

fn owner(machine: &Machine) -> Option<String> {
    machine
        .metadata
        .owner_references
        .as_ref()?
        .first()
        .map(|owner| owner.name.clone())
}

fn ended(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

fn patched<T: Serialize + DeserializeOwned>(object: &T, patch: &Value, revision: u64) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    let known = value["metadata"]["resourceVersion"].clone();
    assert_eq!(
        patch["metadata"]["resourceVersion"], known,
        "a patch is for the copy that it was decided on: {patch}"
    );
    let before = value["spec"].clone();
    merge(&mut value, patch);
    if value["spec"] != before {
        let generation = value["metadata"]["generation"].as_i64().unwrap_or_default();
        value["metadata"]["generation"] = (generation + 1).into();
    }
    value["metadata"]["resourceVersion"] = revision.to_string().into();
    serde_json::from_value(value).unwrap()
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
