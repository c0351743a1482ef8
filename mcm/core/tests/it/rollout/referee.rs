//! The referee of the small world: what must hold after every step, and at the moment at which a machine is made, taken
//! away, chosen for an update or handed over.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use mcm_api::{Machine, MachineSet, Phase};
use mcm_core::deployment::Bounds;

use super::machines::is_selected;
use super::world::World;

/// What the next step is judged by.
#[derive(Default)]
pub struct Judgement {
    /// How many must be available; after a change of the spec not before they once were.
    floor: i64,
    /// How many there may be; after a change of the spec not before the sets were told.
    ceiling: i64,
    /// Machines of the newest template, which do not get fewer while nobody and nothing disturbs their rollout; `None`:
    /// something did.
    updated: Option<usize>,
    /// Machines whose updates a person asked for.
    asked: BTreeSet<String>,
}

impl World {
    /// Machines that nobody deletes.
    pub fn live(&self) -> Vec<&Machine> {
        let machines = self.machines.values().map(|machine| &**machine);
        machines
            .filter(|machine| machine.metadata.deletion_timestamp.is_none())
            .collect()
    }

    /// How many machines serve.
    pub fn available(&self) -> i64 {
        self.live().into_iter().filter(|machine| self.serves(machine)).count() as i64
    }

    /// Whether pods run on the machine, and may do so: one that is chosen for an update serves no more.
    pub(super) fn serves(&self, machine: &Machine) -> bool {
        let running = machine.status.current_status.base() == Some(&Phase::Running);
        let node = machine.metadata.name.as_ref().and_then(|name| self.nodes.get(name));
        let chosen = node.is_some_and(|node| is_selected(node));
        running && !chosen && machine.metadata.deletion_timestamp.is_none()
    }

    fn numbers(&self) -> (i64, Bounds) {
        let Some(deployment) = &self.deployment else {
            return (0, Bounds::default());
        };
        (i64::from(deployment.spec.replicas), Bounds::of(&deployment.spec))
    }

    fn strategy(&self) -> &str {
        let deployment = self.deployment.as_ref();
        deployment.map_or("", |deployment| deployment.spec.strategy.type_.as_str())
    }

    /// Whether a person chooses what is updated.
    fn is_manual(&self) -> bool {
        let in_place = self
            .deployment
            .as_ref()
            .and_then(|one| one.spec.strategy.in_place_update.as_ref());
        self.strategy() == "InPlaceUpdate" && in_place.is_some_and(|how| how.orchestration_type == "Manual")
    }

    /// A machine was made.
    pub(super) fn judge_creation(&self) {
        let (replicas, bounds) = self.numbers();
        let count = self.live().len() as i64;
        let most = self.judgement.ceiling.max(replicas + bounds.surge);
        assert!(
            self.lenient || count <= most,
            "{count} machines, {replicas} wanted, surge {}:\n{}",
            bounds.surge,
            self.tail()
        );
        let all = self.machines.len() as i64;
        assert!(
            !self.undisturbed || all <= replicas + bounds.surge,
            "{all} machines with those that go, {replicas} wanted, surge {}:\n{}",
            bounds.surge,
            self.tail()
        );
    }

    /// A machine that served was taken away, or was chosen for an update.
    pub(super) fn judge_loss(&self, name: &str) {
        let (replicas, bounds) = self.numbers();
        let leaving = |deployment: &mcm_api::MachineDeployment| deployment.metadata.deletion_timestamp.is_some();
        if self.lenient || self.deployment.as_ref().is_none_or(leaving) || self.strategy() == "Recreate" {
            return;
        }
        // Failed machines that are kept lower what is required.
        let kept = self
            .live()
            .iter()
            .filter(|machine| machine.status.is_kept_failed())
            .count() as i64;
        let least = self.judgement.floor.min(replicas - bounds.unavailable) - kept;
        assert!(
            self.available() >= least,
            "{} of {replicas} available, {} may lack, after {name} went:\n{}",
            self.available(),
            bounds.unavailable,
            self.tail()
        );
    }

    /// A machine that served went because somebody chose it, whatever that leaves.
    pub(super) fn note_choice(&mut self) {
        self.judgement.floor -= 1;
    }

    /// A decision changed a Node.
    pub(super) fn judge_selection(&self, before: &Node) {
        let name = before.metadata.name.as_deref().unwrap_or_default();
        if is_selected(before) || !is_selected(&self.nodes[name]) {
            return;
        }
        assert!(!self.is_manual(), "{name} is chosen by nobody:\n{}", self.tail());
        let served = self
            .machines
            .get(name)
            .is_some_and(|machine| machine.status.current_status.base() == Some(&Phase::Running));
        if served {
            self.judge_loss(name);
        }
    }

    /// A decision changed a machine.
    pub(super) fn judge_hand_over(&self, before: &Machine) {
        let name = before.metadata.name.as_deref().unwrap_or_default();
        let handed_over = owner(before).is_some() && owner(before) != owner(&self.machines[name]);
        if handed_over && self.is_manual() {
            let asked = self.judgement.asked.contains(name);
            assert!(asked, "nobody asked for an update of {name}:\n{}", self.tail());
        }
    }

    /// Somebody chooses a node for an update, whatever that leaves.
    pub(super) fn note_person(&mut self, node: &str) {
        self.judgement.asked.insert(node.to_owned());
        self.judgement.floor -= 1;
    }

    /// The machine stopped serving by itself, which is nobody's fault.
    pub(super) fn note_strike(&mut self) {
        self.judgement.floor -= 1;
    }

    /// From here on the rollout may go backwards.
    pub(super) fn note_disturbance(&mut self) {
        self.judgement.updated = None;
    }

    /// What of a machine the bounds are about: whether nobody deletes it, and whether it serves.
    pub(super) fn standing(&self, name: &str) -> Option<(bool, bool)> {
        let machine = self.machines.get(name)?;
        Some((machine.metadata.deletion_timestamp.is_none(), self.serves(machine)))
    }

    /// The spec changed. A template that no set has is rolled out from here on, and steadily; anything else disturbs.
    pub(super) fn note_edit(&mut self, template: bool) {
        let anew = template && self.newest().is_none();
        self.judgement.updated = anew.then_some(0);
    }

    /// What must hold after every step.
    pub(super) fn judge(&mut self) {
        self.judge_number();
        self.judge_progress();
        self.judge_recreation();
    }

    /// Sizes of sets are numbers of machines, and together they are not told to make too many. What was ordered before a
    /// bound changed may still be carried out.
    fn judge_number(&mut self) {
        let (replicas, bounds) = self.numbers();
        let sizes: Vec<(i64, i64)> = self
            .sets
            .values()
            .map(|set| (i64::from(set.spec.replicas), self.owned(set)))
            .collect();
        let negative = sizes.iter().any(|(wanted, _)| *wanted < 0);
        assert!(!negative, "a set is told to have less than nothing:\n{}", self.tail());
        let told: i64 = sizes.iter().map(|(wanted, owned)| wanted.max(owned)).sum();
        let most = replicas + bounds.surge;
        let ceiling = self.judgement.ceiling.max(most);
        assert!(
            self.lenient || told <= ceiling,
            "sets are told to have {told} machines, {replicas} wanted, surge {}:\n{}",
            bounds.surge,
            self.tail()
        );
        self.judgement.ceiling = if told <= most { most } else { ceiling };
        let ordered = sizes.iter().any(|(wanted, owned)| owned > wanted);
        let least = replicas - bounds.unavailable;
        self.judgement.floor = if !ordered && self.available() >= least {
            least
        } else {
            self.judgement.floor.min(least)
        };
    }

    fn judge_progress(&mut self) {
        let Some(before) = self.judgement.updated else { return };
        let updated = self.newest().map_or(0, |set| self.owned(set)) as usize;
        assert!(updated >= before, "the rollout goes backwards:\n{}", self.tail());
        self.judgement.updated = Some(updated);
    }

    fn judge_recreation(&self) {
        if self.lenient || self.strategy() != "Recreate" {
            return;
        }
        let sets: BTreeSet<_> = self.live().into_iter().filter_map(owner).collect();
        assert!(sets.len() <= 1, "recreate mixes templates:\n{}", self.tail());
    }

    /// The set of the deployment's template.
    pub(super) fn newest(&self) -> Option<&MachineSet> {
        let class = &self.deployment.as_ref()?.spec.template.spec.class.name;
        let mut sets = self.sets.values().map(|set| &**set);
        sets.find(|set| set.spec.template.spec.class.name == *class)
    }

    /// Whether a rollout has begun and is not over.
    pub fn is_under_way(&self) -> bool {
        let newest = self.newest();
        let leaving = |machine: &Machine| machine.metadata.deletion_timestamp.is_some();
        let begun = newest.is_some() || self.machines.values().any(|machine| leaving(machine));
        let name = newest.and_then(|set| set.metadata.name.as_deref());
        let mut machines = self.machines.values();
        let over = machines.all(|machine| owner(machine) == name && self.serves(machine));
        begun && !over
    }

    /// Live machines of a set.
    fn owned(&self, set: &MachineSet) -> i64 {
        let name = set.metadata.name.as_deref();
        self.live().into_iter().filter(|machine| owner(machine) == name).count() as i64
    }
}

/// The set that controls the machine.
pub(super) fn owner(machine: &Machine) -> Option<&str> {
    let owners = machine.metadata.owner_references.as_ref()?;
    owners.first().map(|owner| owner.name.as_str())
}
