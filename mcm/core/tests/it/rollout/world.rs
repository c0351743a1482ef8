//! A world of objects in which the decisions about a deployment, its sets and its machines are carried out one at a
//! time, in a given order or in any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Machine, MachineDeployment, MachineSet, Phase, keys};
use mcm_core::{deployment, set};

use super::machines::{has, is_selected, is_well};
use super::referee::{Judgement, owner};
use crate::dice::Dice;
use crate::fixtures::start;
use crate::world::World as Life;

/// How long each turn takes.
const TURN: SignedDuration = SignedDuration::from_millis(100);
/// Longer than any timeout of a machine.
const PATIENCE: SignedDuration = SignedDuration::from_mins(21);

/// Who acts next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    Deployment,
    Set(String),
    Machine(String),
    /// Who chooses nodes for updates in place.
    Person,
}

/// Revisions of what an actor decides about: of machine and node, or of the whole world.
type Seen = (Option<String>, Option<String>);

pub struct World {
    pub deployment: Option<MachineDeployment>,
    pub sets: BTreeMap<String, Arc<MachineSet>>,
    pub machines: BTreeMap<String, Arc<Machine>>,
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub now: Timestamp,
    pub narrative: Vec<String>,
    /// Names of classes whose machines never join.
    pub broken: BTreeSet<String>,
    /// How often one looks at a node that is drained until its pod is gone.
    pub drain: usize,
    /// How many updates in place fail from now on.
    pub failing_updates: usize,
    /// How many nodes a person has updated at the same time; 0: nobody chooses any.
    pub updates_at_a_time: usize,
    /// Machines made in all.
    pub made: usize,
    /// No bound is looked at.
    pub lenient: bool,
    /// Nothing fails and nobody changes a number: machines that go count as long as they are there.
    pub undisturbed: bool,
    pub taken: Option<String>,
    pub(super) lives: BTreeMap<String, Life>,
    pub(super) draining: BTreeMap<String, usize>,
    pub(super) judgement: Judgement,
    pub(super) revision: u64,
    pub(super) ids: u64,
    /// What an actor had seen when there was nothing to do.
    idle: BTreeMap<Actor, Seen>,
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
            made: 0,
            lenient: false,
            undisturbed: false,
            taken: None,
            lives: BTreeMap::new(),
            draining: BTreeMap::new(),
            judgement: Judgement::default(),
            revision: 1,
            ids: 0,
            idle: BTreeMap::new(),
        }
    }

    pub fn tell(&mut self, line: impl Into<String>) {
        self.narrative.push(line.into());
    }

    pub fn tail(&self) -> String {
        let from = self.narrative.len().saturating_sub(60);
        self.narrative[from..].join("\n")
    }

    /// A person edits the deployment.
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
        self.tell(format!("a person: {what}"));
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
            self.note_person(name);
        }
        self.bump(&mut node.metadata);
        self.nodes.insert(name.to_owned(), Arc::new(node));
    }

    pub fn actors(&self) -> Vec<Actor> {
        let mut actors = vec![Actor::Deployment];
        actors.extend(self.sets.keys().cloned().map(Actor::Set));
        actors.extend(self.machines.keys().cloned().map(Actor::Machine));
        actors.extend((self.updates_at_a_time > 0).then_some(Actor::Person));
        actors
    }

    /// Lets one act; answers whether it did anything.
    pub fn act(&mut self, actor: &Actor) -> bool {
        self.now = self.now.checked_add(TURN).unwrap();
        let acted = match actor {
            Actor::Deployment => self.act_deployment(),
            Actor::Set(name) => self.act_set(name),
            Actor::Machine(name) => {
                let before = self.standing(name);
                let acted = self.act_machine(name);
                let after = self.standing(name);
                if before == after {
                    return acted;
                }
                if (before, after) == (Some((true, true)), Some((true, false))) {
                    self.note_strike();
                }
                acted
            }
            Actor::Person => self.act_person(),
        };
        self.judge();
        acted
    }

    /// All act in their order until nobody does anything.
    pub fn settle(&mut self) {
        self.idle.clear();
        for _ in 0..2000 {
            let mut acted = false;
            for actor in self.actors() {
                acted |= self.look(&actor);
            }
            if !acted {
                return;
            }
        }
        panic!("it does not come to rest:\n{}", self.tail());
    }

    /// One after the other acts, in any order, until nobody does anything.
    pub fn settle_anyhow(&mut self, dice: &mut Dice) {
        self.idle.clear();
        for _ in 0..20_000 {
            let Some(actor) = self.next(dice) else { return };
            self.look(&actor);
        }
        panic!("it does not come to rest:\n{}", self.tail());
    }

    /// The same, until no time that passes changes anything either.
    pub fn settle_for_good(&mut self, dice: &mut Dice) {
        for _ in 0..50 {
            self.settle_anyhow(dice);
            let machines = &mut self.machines.values();
            if machines.all(|machine| machine.status.current_status.base() == Some(&Phase::Running)) {
                return;
            }
            self.pass(PATIENCE);
        }
        panic!("it does not come to rest:\n{}", self.tail());
    }

    /// So many act, in any order, as long as anybody does anything.
    pub fn stir(&mut self, dice: &mut Dice, times: usize) {
        self.idle.clear();
        for _ in 0..times {
            let Some(actor) = self.next(dice) else { return };
            self.look(&actor);
        }
    }

    pub fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
        self.tell(format!("  ({time:#} pass)"));
    }

    /// Anyone of those who may have something to do.
    fn next(&self, dice: &mut Dice) -> Option<Actor> {
        let mut awake = self.actors();
        awake.retain(|actor| !self.is_idle(actor));
        (!awake.is_empty()).then(|| dice.pick(&awake).clone())
    }

    /// As [`Self::act`], unless nothing that the actor sees was written since it had nothing to do.
    fn look(&mut self, actor: &Actor) -> bool {
        if self.is_idle(actor) {
            return false;
        }
        let acted = self.act(actor);
        if !acted {
            self.idle.insert(actor.clone(), self.seen(actor));
        }
        acted
    }

    fn is_idle(&self, actor: &Actor) -> bool {
        self.idle.get(actor).is_some_and(|seen| *seen == self.seen(actor))
    }

    fn seen(&self, actor: &Actor) -> Seen {
        if let Actor::Machine(name) = actor
            && let Some(machine) = self.machines.get(name)
            && is_well(machine)
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
        self.perform(plan, "deployment", &view.deployment.metadata)
    }

    fn act_set(&mut self, name: &str) -> bool {
        let Some(view) = self.set_view(name) else { return false };
        let plan = set::decide(&view, self.now);
        self.perform(plan, &format!("set {name}"), &view.set.metadata)
    }

    /// A person chooses the next node for its update in place.
    fn act_person(&mut self) -> bool {
        let chosen = self.nodes.values().filter(|node| is_selected(node)).count();
        let candidate = self.live().into_iter().find_map(|machine| {
            let name = machine.metadata.name.as_ref()?;
            let candidate = has(self.nodes.get(name)?, keys::CANDIDATE_FOR_UPDATE_LABEL);
            (candidate && self.serves(machine)).then(|| name.clone())
        });
        let Some(name) = candidate.filter(|_| chosen < self.updates_at_a_time) else {
            return false;
        };
        self.tell(format!("a person: the node {name} is to be updated"));
        self.edit_node(&name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
        });
        true
    }

    /// Everybody is Running, of that class, and nobody else is there.
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
            let kept = annotations.contains_key(keys::SCALE_DOWN_DISABLED_ANNOTATION);
            assert!(!kept, "{}", self.tail());
            let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
            let tainted = taints.iter().any(|taint| taint.key == keys::PREFER_NO_SCHEDULE);
            assert!(!tainted, "{}", self.tail());
            assert!(!is_selected(node), "{}", self.tail());
        }
    }
}
