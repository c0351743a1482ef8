//! A simulated world of objects: performs the decisions about a deployment, its sets and its machines one at a time, in
//! a fixed or random order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Machine, MachineDeployment, MachineSet, Phase, keys};
use mcm_core::{deployment, set};

use super::invariants::{Invariants, owner};
use super::machines::{has, is_selected, needs_no_siblings};
use crate::dice::Dice;
use crate::fixtures::start;
use crate::world::World as Life;

/// The duration of each turn.
const TURN: SignedDuration = SignedDuration::from_millis(100);
/// Longer than any timeout of a machine.
const LONGER_THAN_TIMEOUTS: SignedDuration = SignedDuration::from_mins(21);

/// Who acts next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    Deployment,
    Set(String),
    Machine(String),
    /// Selects nodes for manual in-place updates.
    User,
}

/// The revisions of the input of an actor: of machine and node, or of the whole world.
type Revisions = (Option<String>, Option<String>);

pub struct World {
    pub deployment: Option<MachineDeployment>,
    pub sets: BTreeMap<String, Arc<MachineSet>>,
    pub machines: BTreeMap<String, Arc<Machine>>,
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub now: Timestamp,
    pub narrative: Vec<String>,
    /// Names of classes whose machines never join.
    pub broken: BTreeSet<String>,
    /// The number of steps until the pod of a draining node terminates.
    pub drain: usize,
    /// How many of the next in-place updates fail.
    pub failing_updates: usize,
    /// How many nodes the user selects for updates at the same time; 0: none.
    pub updates_at_a_time: usize,
    /// The total number of created machines.
    pub created_machines: usize,
    /// Disables the checks of the rollout bounds.
    pub lenient: bool,
    /// Nothing fails and no bound changes: terminating machines count until they are deleted.
    pub undisturbed: bool,
    pub taken: Option<String>,
    pub(super) lives: BTreeMap<String, Life>,
    pub(super) draining: BTreeMap<String, usize>,
    pub(super) invariants: Invariants,
    pub(super) revision: u64,
    pub(super) ids: u64,
    /// The input revisions of each actor at its last decision without an action.
    idle: BTreeMap<Actor, Revisions>,
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
            failing_updates: 0,
            updates_at_a_time: 0,
            created_machines: 0,
            lenient: false,
            undisturbed: false,
            taken: None,
            lives: BTreeMap::new(),
            draining: BTreeMap::new(),
            invariants: Invariants::default(),
            revision: 1,
            ids: 0,
            idle: BTreeMap::new(),
        }
    }

    pub fn log(&mut self, line: impl Into<String>) {
        self.narrative.push(line.into());
    }

    pub fn tail(&self) -> String {
        let from = self.narrative.len().saturating_sub(60);
        self.narrative[from..].join("\n")
    }

    /// A user edits the deployment.
    pub fn edit(&mut self, what: &str, change: impl Fn(&mut MachineDeployment)) {
        let mut deployment = self.deployment.clone().unwrap();
        let before = deployment.spec.clone();
        change(&mut deployment);
        if deployment.spec != before {
            *deployment.metadata.generation.get_or_insert(0) += 1;
        }
        let template = deployment.spec.template != before.template;
        self.bump(&mut deployment.metadata);
        self.deployment = Some(deployment);
        self.note_edit(template);
        self.log(format!("user: {what}"));
    }

    pub fn edit_machine(&mut self, name: &str, change: impl Fn(&mut Machine)) {
        let mut machine = Machine::clone(&self.machines[name]);
        change(&mut machine);
        self.bump(&mut machine.metadata);
        self.machines.insert(name.to_owned(), Arc::new(machine));
    }

    pub fn edit_node(&mut self, name: &str, change: impl Fn(&mut Node)) {
        let before = Arc::clone(&self.nodes[name]);
        let mut node = Node::clone(&before);
        change(&mut node);
        if !is_selected(&before) && is_selected(&node) {
            self.note_user_selection(name);
        }
        self.bump(&mut node.metadata);
        self.nodes.insert(name.to_owned(), Arc::new(node));
    }

    pub fn actors(&self) -> Vec<Actor> {
        let mut actors = vec![Actor::Deployment];
        actors.extend(self.sets.keys().cloned().map(Actor::Set));
        actors.extend(self.machines.keys().cloned().map(Actor::Machine));
        actors.extend((self.updates_at_a_time > 0).then_some(Actor::User));
        actors
    }

    /// Runs one decision of the actor and checks the invariants; returns whether it did anything.
    pub fn act(&mut self, actor: &Actor) -> bool {
        self.now = self.now.checked_add(TURN).unwrap();
        let acted = match actor {
            Actor::Deployment => self.act_deployment(),
            Actor::Set(name) => self.act_set(name),
            Actor::Machine(name) => {
                let before = self.live_and_available(name);
                let acted = self.act_machine(name);
                let after = self.live_and_available(name);
                if before == after {
                    return acted;
                }
                if (before, after) == (Some((true, true)), Some((true, false))) {
                    self.note_failure();
                }
                acted
            }
            Actor::User => self.act_user(),
        };
        self.check_invariants();
        acted
    }

    /// Runs all actors in order until none does anything.
    pub fn settle(&mut self) {
        self.idle.clear();
        for _ in 0..2000 {
            let mut acted = false;
            for actor in self.actors() {
                acted |= self.act_unless_idle(&actor);
            }
            if !acted {
                return;
            }
        }
        panic!("the world does not settle:\n{}", self.tail());
    }

    /// Runs the actors in random order until none does anything.
    pub fn settle_in_random_order(&mut self, dice: &mut Dice) {
        self.idle.clear();
        for _ in 0..20_000 {
            let Some(actor) = self.next(dice) else { return };
            self.act_unless_idle(&actor);
        }
        panic!("the world does not settle:\n{}", self.tail());
    }

    /// Runs the actors in random order and lets timeouts expire until every machine is Running.
    pub fn settle_past_timeouts(&mut self, dice: &mut Dice) {
        for _ in 0..50 {
            self.settle_in_random_order(dice);
            let machines = &mut self.machines.values();
            if machines.all(|machine| machine.status.current_status.base() == Some(&Phase::Running)) {
                return;
            }
            self.advance(LONGER_THAN_TIMEOUTS);
        }
        panic!("the world does not settle:\n{}", self.tail());
    }

    /// Runs up to `times` random actors, until none does anything.
    pub fn act_randomly(&mut self, dice: &mut Dice, times: usize) {
        self.idle.clear();
        for _ in 0..times {
            let Some(actor) = self.next(dice) else { return };
            self.act_unless_idle(&actor);
        }
    }

    pub fn advance(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
        self.log(format!("  ({time:#} pass)"));
    }

    /// A random actor that is not idle.
    fn next(&self, dice: &mut Dice) -> Option<Actor> {
        let mut active = self.actors();
        active.retain(|actor| !self.is_idle(actor));
        (!active.is_empty()).then(|| dice.pick(&active).clone())
    }

    /// As [`Self::act`], unless the actor had nothing to do and its input has not changed since.
    fn act_unless_idle(&mut self, actor: &Actor) -> bool {
        if self.is_idle(actor) {
            return false;
        }
        let acted = self.act(actor);
        if !acted {
            self.idle.insert(actor.clone(), self.input_revisions(actor));
        }
        acted
    }

    fn is_idle(&self, actor: &Actor) -> bool {
        self.idle
            .get(actor)
            .is_some_and(|revisions| *revisions == self.input_revisions(actor))
    }

    fn input_revisions(&self, actor: &Actor) -> Revisions {
        if let Actor::Machine(name) = actor
            && let Some(machine) = self.machines.get(name)
            && needs_no_siblings(machine)
        {
            let node = self
                .nodes
                .get(name)
                .and_then(|node| node.metadata.resource_version.clone());
            return (machine.metadata.resource_version.clone(), node);
        }
        (Some(self.revision.to_string()), None)
    }

    pub fn deployment_view(&self) -> Option<deployment::View> {
        Some(deployment::View {
            deployment: self.deployment.clone()?,
            sets: self.sets.values().cloned().collect(),
            machines: self.machines.values().cloned().collect(),
            nodes: Some(self.nodes.clone().into_iter().collect()),
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
        self.perform(plan, "deployment", &view.deployment.metadata)
    }

    fn act_set(&mut self, name: &str) -> bool {
        let Some(view) = self.set_view(name) else { return false };
        let plan = set::decide(&view, self.now);
        self.perform(plan, &format!("set {name}"), &view.set.metadata)
    }

    /// The user selects the next node for its in-place update.
    fn act_user(&mut self) -> bool {
        let selected = self.nodes.values().filter(|node| is_selected(node)).count();
        let candidate = self.live().into_iter().find_map(|machine| {
            let name = machine.metadata.name.as_ref()?;
            let candidate = has(self.nodes.get(name)?, keys::CANDIDATE_FOR_UPDATE_LABEL);
            (candidate && self.is_available(machine)).then(|| name.clone())
        });
        let Some(name) = candidate.filter(|_| selected < self.updates_at_a_time) else {
            return false;
        };
        self.log(format!("user: select node {name} for its update"));
        self.edit_node(&name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
        });
        true
    }

    /// Asserts that the rollout to the class is complete: every machine is Running, and no other machine exists.
    pub fn assert_settled(&self, class: &str) {
        let deployment = self.deployment.as_ref().unwrap();
        let replicas = deployment.spec.replicas as usize;
        let phases = self
            .machines
            .iter()
            .map(|(name, machine)| (name, machine.status.current_status.base()));
        let wrong: Vec<_> = phases.filter(|(_, phase)| *phase != Some(&Phase::Running)).collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{}", self.tail());
        assert_eq!(self.machines.len(), replicas, "{}", self.tail());
        assert_eq!(self.nodes.len(), replicas, "{}", self.tail());
        for machine in self.machines.values() {
            let set = &self.sets[owner(machine).unwrap()];
            assert_eq!(set.spec.template.spec.class.name, class, "{}", self.tail());
        }
        let status = &deployment.status;
        assert_eq!(status.updated_replicas as usize, replicas, "{}", self.tail());
        assert_eq!(status.available_replicas as usize, replicas, "{}", self.tail());
        let mut conditions = status.conditions.iter();
        let progressing = conditions.find(|condition| condition.type_ == "Progressing").unwrap();
        assert_eq!(progressing.reason, "NewMachineSetAvailable", "{}", self.tail());
        for node in self.nodes.values() {
            let annotations = node.metadata.annotations.clone().unwrap_or_default();
            let annotated = annotations.contains_key(keys::SCALE_DOWN_DISABLED_ANNOTATION);
            assert!(!annotated, "{}", self.tail());
            let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
            let tainted = taints.iter().any(|taint| taint.key == keys::PREFER_NO_SCHEDULE);
            assert!(!tainted, "{}", self.tail());
            assert!(!is_selected(node), "{}", self.tail());
        }
    }
}
