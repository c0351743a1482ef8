//! Maps changes to the sets and deployments that they trigger, and finds the objects of an owner.
//!
//! The rules of ownership are those of `mcm_core::ownership`.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::machine::LastOperation;
use mcm_api::{Machine, MachineDeployment, MachineSet, Phase, State};
use mcm_core::ownership::controller;
use mcm_core::selector::matches;

use super::cluster_state::ClusterState;
use super::indexes::{MachineIndex, SetIndex};
use super::work::{Trigger, Work, quiet};
use crate::cache::{Change, Key};

/// The index value of objects without a controller.
const ORPHANS: &str = "";

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or("none")
}

impl ClusterState {
    /// Machines that the set controls.
    pub(crate) fn machines_of(&self, set: &MachineSet) -> Vec<Arc<Machine>> {
        self.machines.find(MachineIndex::Owner, uid(&set.metadata))
    }

    /// Machines that the set controls, and orphans that it selects.
    pub(crate) fn machines_for(&self, set: &MachineSet) -> Vec<Arc<Machine>> {
        let mut machines = self.machines_of(set);
        let orphans = self.machines.find(MachineIndex::Owner, ORPHANS).into_iter();
        let selector = set.spec.selector.as_ref();
        machines
            .extend(orphans.filter(|machine| {
                selector.is_some_and(|selector| matches(selector, machine.metadata.labels.as_ref()))
            }));
        machines
    }

    /// The deployment that controls the set; `None` also if it cannot be decoded, since its size may be wrong then.
    pub(crate) fn deployment_of(&self, set: &MachineSet) -> Option<Arc<MachineDeployment>> {
        let owner = controller(&set.metadata)?;
        let key = Key::new(&self.namespace, &owner.name);
        let deployment = self.deployments.get(&key)?;
        let is_owner = deployment.metadata.uid.as_ref() == Some(&owner.uid);
        (is_owner && self.deployments.damage(&key).is_none()).then_some(deployment)
    }

    /// The sets whose size is known: they and their deployments could be decoded.
    pub(crate) fn sets_of_known_size(&self) -> Vec<Arc<MachineSet>> {
        let mut sets = self.sets.all();
        sets.retain(|set| {
            let owner = controller(&set.metadata).map(|owner| Key::new(&self.namespace, &owner.name));
            let is_damaged = |owner: &Key| self.deployments.damage(owner).is_some();
            self.sets.damage(&Key::of(&**set)).is_none() && !owner.as_ref().is_some_and(is_damaged)
        });
        sets
    }

    /// Sets that the deployment controls, and orphans that it selects.
    pub(crate) fn sets_for(&self, deployment: &MachineDeployment) -> Vec<Arc<MachineSet>> {
        let mut sets = self.sets.find(SetIndex::Owner, uid(&deployment.metadata));
        let orphans = self.sets.find(SetIndex::Owner, ORPHANS).into_iter();
        let selector = deployment.spec.selector.as_ref();
        sets.extend(
            orphans.filter(|set| selector.is_some_and(|selector| matches(selector, set.metadata.labels.as_ref()))),
        );
        sets
    }

    /// The current, previous and possible owners of a changed machine.
    pub(crate) fn owners_of_machine(&self, change: &Change<Machine>) -> Vec<Trigger> {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && !affects_owners(old, new)
        {
            return Vec::new();
        }
        let mut triggers = Vec::new();
        if change.old.is_none() || change.new.is_none() {
            let hurry = change.old.is_none();
            triggers.push(Trigger {
                work: Work::Overshoot,
                hurry,
            });
        }
        for machine in [&change.old, &change.new].into_iter().flatten() {
            match controller(&machine.metadata) {
                Some(owner) => {
                    let key = Key::new(&self.namespace, &owner.name);
                    if let Some(set) = self.sets.get(&key) {
                        triggers.extend(self.owners_of_set(&set));
                    }
                    triggers.push(quiet(Work::Set(key)));
                }
                None => triggers.extend(self.sets_that_select(&machine.metadata)),
            }
        }
        dedup(triggers)
    }

    fn sets_that_select(&self, metadata: &ObjectMeta) -> Vec<Trigger> {
        let all = self.sets.all().into_iter();
        all.filter(|set| {
            let selector = set.spec.selector.as_ref();
            selector.is_some_and(|selector| matches(selector, metadata.labels.as_ref()))
        })
        .map(|set| quiet(Work::Set(Key::of(&*set))))
        .collect()
    }

    fn owners_of_set(&self, set: &MachineSet) -> Vec<Trigger> {
        if let Some(owner) = controller(&set.metadata) {
            return vec![quiet(Work::Deployment(Key::new(&self.namespace, &owner.name)))];
        }
        let all = self.deployments.all().into_iter();
        all.filter(|deployment| {
            let selector = deployment.spec.selector.as_ref();
            selector.is_some_and(|selector| matches(selector, set.metadata.labels.as_ref()))
        })
        .map(|deployment| quiet(Work::Deployment(Key::of(&*deployment))))
        .collect()
    }

    pub(crate) fn set_changed(&self, change: &Change<MachineSet>) -> Vec<Trigger> {
        let mut triggers = Vec::new();
        for set in [&change.old, &change.new].into_iter().flatten() {
            triggers.push(quiet(Work::Set(Key::of(&**set))));
            triggers.extend(self.owners_of_set(set));
        }
        triggers.extend(self.released(change, |set| &set.status.preservations));
        triggers.push(quiet(Work::Overshoot));
        dedup(triggers)
    }

    /// Work that starts once the caches are filled.
    pub(crate) fn first_triggers(&self) -> Vec<Trigger> {
        let first = [Work::Overshoot, Work::UncheckedMachines].map(quiet).into_iter();
        first.filter(|trigger| self.enabled.runs(&trigger.work)).collect()
    }

    pub(crate) fn deployment_changed(&self, change: &Change<MachineDeployment>) -> Vec<Trigger> {
        let deployment = change.either().into_iter();
        let mut triggers: Vec<_> = deployment
            .map(|deployment| quiet(Work::Deployment(Key::of(&**deployment))))
            .collect();
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old.spec.replicas < new.spec.replicas
        {
            // A set that was scaled before its deployment waits for this change.
            let sets = self.sets.find(SetIndex::Owner, uid(&new.metadata)).into_iter();
            triggers.extend(sets.map(|set| quiet(Work::Set(Key::of(&*set)))));
        }
        triggers.extend(self.released(change, |deployment| &deployment.status.preservations));
        triggers.push(quiet(Work::Overshoot));
        triggers
    }

    /// The work after this process wrote a machine: its owners, and the machine itself if it was created or deleted.
    pub(crate) fn own_machine_changed(&self, change: &Change<Machine>) -> Vec<Trigger> {
        let mut triggers = self.owners_of_machine(change);
        if let Some(new) = &change.new {
            let is_deleting = |machine: &Arc<Machine>| machine.metadata.deletion_timestamp.is_some();
            if change.old.is_none() || is_deleting(new) && !change.old.as_ref().is_some_and(is_deleting) {
                triggers.push(quiet(Work::Machine(Key::of(&**new))));
                let class = Key::new(&self.namespace, &new.spec.class.name);
                triggers.push(quiet(Work::Class(class)));
            }
        }
        triggers.extend(self.health_checks_of_machine(change));
        triggers
    }
}

fn dedup(mut triggers: Vec<Trigger>) -> Vec<Trigger> {
    triggers.sort_by(|a, b| a.work.cmp(&b.work));
    triggers.dedup();
    triggers
}

/// Whether a change of a machine can affect its set or deployment.
fn affects_owners(old: &Machine, new: &Machine) -> bool {
    let conditions = |machine: &Machine| {
        let all = machine.status.conditions.iter();
        all.filter(|condition| condition.type_ == mcm_api::keys::IN_PLACE_UPDATE_CONDITION)
            .map(|condition| condition.reason.clone())
            .collect::<Vec<_>>()
    };
    old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.owner_references != new.metadata.owner_references
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.spec != new.spec
        || old.status.current_status != new.status.current_status
        || failed_operation(old) != failed_operation(new)
        || old.status.preservation != new.status.preservation
        || conditions(old) != conditions(new)
}

/// The last operation of a failed machine, or a failed operation: sets list it. They ignore the other ones.
fn failed_operation(machine: &Machine) -> Option<&LastOperation> {
    let last = machine.status.last_operation.as_ref()?;
    let is_failed = machine.status.current_status.base() == Some(&Phase::Failed) || last.state == Some(State::Failed);
    is_failed.then_some(last)
}

#[cfg(test)]
mod tests;
