//! The invariants of the simulated world: checked after every step, and when a machine is created, deleted, selected
//! for an update or moved to another set.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use mcm_api::{Machine, MachineSet, Phase};
use mcm_core::deployment::Bounds;

use super::machines::is_selected;
use super::world::World;

/// The state of the invariant checks.
#[derive(Default)]
pub struct Invariants {
    /// The required number of available machines; a raised requirement applies when it is first met.
    floor: i64,
    /// The allowed number of machines; a lowered limit applies when the sets are resized.
    ceiling: i64,
    /// The number of machines of the newest template, which does not decrease during an undisturbed rollout; `None`:
    /// the rollout is disturbed.
    updated: Option<usize>,
    /// Machines that the user selected for updates.
    selected: BTreeSet<String>,
}

impl World {
    /// Machines that are not being deleted.
    pub fn live(&self) -> Vec<&Machine> {
        let machines = self.machines.values().map(|machine| &**machine);
        machines
            .filter(|machine| machine.metadata.deletion_timestamp.is_none())
            .collect()
    }

    /// The number of available machines.
    pub fn available(&self) -> i64 {
        self.live()
            .into_iter()
            .filter(|machine| self.is_available(machine))
            .count() as i64
    }

    /// Whether the machine is available for pods; a machine selected for an update is not.
    pub(super) fn is_available(&self, machine: &Machine) -> bool {
        let running = machine.status.current_status.base() == Some(&Phase::Running);
        let node = machine.metadata.name.as_ref().and_then(|name| self.nodes.get(name));
        let selected = node.is_some_and(|node| is_selected(node));
        running && !selected && machine.metadata.deletion_timestamp.is_none()
    }

    fn replicas_and_bounds(&self) -> (i64, Bounds) {
        let Some(deployment) = &self.deployment else {
            return (0, Bounds::default());
        };
        (i64::from(deployment.spec.replicas), Bounds::of(&deployment.spec))
    }

    fn strategy(&self) -> &str {
        let deployment = self.deployment.as_ref();
        deployment.map_or("", |deployment| deployment.spec.strategy.type_.as_str())
    }

    /// Whether the user selects the nodes to update.
    fn is_manual(&self) -> bool {
        let in_place = self
            .deployment
            .as_ref()
            .and_then(|one| one.spec.strategy.in_place_update.as_ref());
        self.strategy() == "InPlaceUpdate" && in_place.is_some_and(|how| how.orchestration_type == "Manual")
    }

    /// Checks the bounds after the creation of a machine.
    pub(super) fn check_creation(&self) {
        let (replicas, bounds) = self.replicas_and_bounds();
        let count = self.live().len() as i64;
        let most = self.invariants.ceiling.max(replicas + bounds.surge);
        assert!(
            self.lenient || count <= most,
            "{count} machines, {replicas} wanted, surge {}:\n{}",
            bounds.surge,
            self.tail()
        );
        let all = self.machines.len() as i64;
        assert!(
            !self.undisturbed || all <= replicas + bounds.surge,
            "{all} machines including terminating ones, {replicas} wanted, surge {}:\n{}",
            bounds.surge,
            self.tail()
        );
    }

    /// Checks the bounds after an available machine is deleted or selected for an update.
    pub(super) fn check_availability(&self, name: &str) {
        let (replicas, bounds) = self.replicas_and_bounds();
        let leaving = |deployment: &mcm_api::MachineDeployment| deployment.metadata.deletion_timestamp.is_some();
        if self.lenient || self.deployment.as_ref().is_none_or(leaving) || self.strategy() == "Recreate" {
            return;
        }
        // Preserved failed machines lower the requirement.
        let kept = self
            .live()
            .iter()
            .filter(|machine| machine.status.is_kept_failed())
            .count() as i64;
        let least = self.invariants.floor.min(replicas - bounds.unavailable) - kept;
        assert!(
            self.available() >= least,
            "{} of {replicas} available, {} may be unavailable, after the loss of {name}:\n{}",
            self.available(),
            bounds.unavailable,
            self.tail()
        );
    }

    /// An available machine was deleted because of its priority, regardless of the bounds.
    pub(super) fn note_prioritized_deletion(&mut self) {
        self.invariants.floor -= 1;
    }

    /// Checks a Node change of a decision for a new selection.
    pub(super) fn check_selection(&self, before: &Node) {
        let name = before.metadata.name.as_deref().unwrap_or_default();
        if is_selected(before) || !is_selected(&self.nodes[name]) {
            return;
        }
        assert!(!self.is_manual(), "the user did not select {name}:\n{}", self.tail());
        let was_running = self
            .machines
            .get(name)
            .is_some_and(|machine| machine.status.current_status.base() == Some(&Phase::Running));
        if was_running {
            self.check_availability(name);
        }
    }

    /// Checks a machine change of a decision for a move to another set.
    pub(super) fn check_move(&self, before: &Machine) {
        let name = before.metadata.name.as_deref().unwrap_or_default();
        let moved = owner(before).is_some() && owner(before) != owner(&self.machines[name]);
        if moved && self.is_manual() {
            let selected = self.invariants.selected.contains(name);
            assert!(selected, "the user did not select {name}:\n{}", self.tail());
        }
    }

    /// The user selected a node for an update, regardless of the bounds.
    pub(super) fn note_user_selection(&mut self, node: &str) {
        self.invariants.selected.insert(node.to_owned());
        self.invariants.floor -= 1;
    }

    /// A machine became unavailable without a decision of the controller.
    pub(super) fn note_failure(&mut self) {
        self.invariants.floor -= 1;
    }

    /// From now on the rollout may go backwards.
    pub(super) fn note_disturbance(&mut self) {
        self.invariants.updated = None;
    }

    /// Whether the machine is not being deleted, and whether it is available.
    pub(super) fn live_and_available(&self, name: &str) -> Option<(bool, bool)> {
        let machine = self.machines.get(name)?;
        Some((
            machine.metadata.deletion_timestamp.is_none(),
            self.is_available(machine),
        ))
    }

    /// The spec changed. A template without a set starts a rollout that must progress; any other change disturbs the
    /// rollout.
    pub(super) fn note_edit(&mut self, template: bool) {
        let starts_rollout = template && self.newest().is_none();
        self.invariants.updated = starts_rollout.then_some(0);
    }

    /// Checks the invariants after every step.
    pub(super) fn check_invariants(&mut self) {
        self.check_sizes();
        self.check_progress();
        self.check_recreation();
    }

    /// Sizes of sets are not negative, and their sum does not exceed the bounds. Sizes written before a bound changed
    /// remain valid.
    fn check_sizes(&mut self) {
        let (replicas, bounds) = self.replicas_and_bounds();
        let sizes: Vec<(i64, i64)> = self
            .sets
            .values()
            .map(|set| (i64::from(set.spec.replicas), self.owned(set)))
            .collect();
        let negative = sizes.iter().any(|(wanted, _)| *wanted < 0);
        assert!(!negative, "a set has a negative size:\n{}", self.tail());
        let total: i64 = sizes.iter().map(|(wanted, owned)| wanted.max(owned)).sum();
        let most = replicas + bounds.surge;
        let ceiling = self.invariants.ceiling.max(most);
        assert!(
            self.lenient || total <= ceiling,
            "the sets have a total size of {total}, {replicas} wanted, surge {}:\n{}",
            bounds.surge,
            self.tail()
        );
        self.invariants.ceiling = if total <= most { most } else { ceiling };
        let deletes = sizes.iter().any(|(wanted, owned)| owned > wanted);
        let least = replicas - bounds.unavailable;
        self.invariants.floor = if !deletes && self.available() >= least {
            least
        } else {
            self.invariants.floor.min(least)
        };
    }

    fn check_progress(&mut self) {
        let Some(before) = self.invariants.updated else { return };
        let updated = self.newest().map_or(0, |set| self.owned(set)) as usize;
        assert!(updated >= before, "the rollout goes backwards:\n{}", self.tail());
        self.invariants.updated = Some(updated);
    }

    fn check_recreation(&self) {
        if self.lenient || self.strategy() != "Recreate" {
            return;
        }
        let sets: BTreeSet<_> = self.live().into_iter().filter_map(owner).collect();
        assert!(
            sets.len() <= 1,
            "the strategy Recreate mixes templates:\n{}",
            self.tail()
        );
    }

    /// The set of the deployment's template.
    pub(super) fn newest(&self) -> Option<&MachineSet> {
        let class = &self.deployment.as_ref()?.spec.template.spec.class.name;
        let mut sets = self.sets.values().map(|set| &**set);
        sets.find(|set| set.spec.template.spec.class.name == *class)
    }

    /// Whether a rollout is in progress.
    pub fn is_in_progress(&self) -> bool {
        let newest = self.newest();
        let leaving = |machine: &Machine| machine.metadata.deletion_timestamp.is_some();
        let started = newest.is_some() || self.machines.values().any(|machine| leaving(machine));
        let name = newest.and_then(|set| set.metadata.name.as_deref());
        let mut machines = self.machines.values();
        let complete = machines.all(|machine| owner(machine) == name && self.is_available(machine));
        started && !complete
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
