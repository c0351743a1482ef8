//! The API server of the simulated world: performs plans, and asserts that they are based on the current objects.

use std::fmt::Display;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::{Machine, MachineDeployment, MachineSet, keys};
use mcm_core::steps::{Kind, OwnerAction, Plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::world::World;

impl World {
    /// Performs a plan of another controller.
    pub fn carry_out<R: Display>(&mut self, plan: Plan<R>, who: &str, owner: &ObjectMeta) {
        self.perform(plan, who, owner);
    }

    /// Performs a plan about the owner; returns whether there was anything to do.
    pub(super) fn perform<R: Display>(&mut self, plan: Plan<R>, who: &str, owner: &ObjectMeta) -> bool {
        let acted = !plan.steps.is_empty();
        let mut logged = String::new();
        for step in plan.steps {
            let line = format!("{who}: {}", step.reason);
            if line != logged
                && !matches!(
                    step.action,
                    OwnerAction::RecordEvent { .. } | OwnerAction::WriteStatus { .. }
                )
            {
                self.log(line.clone());
                logged = line;
            }
            self.step(step.action, owner);
        }
        acted
    }

    fn step(&mut self, action: OwnerAction, owner: &ObjectMeta) {
        match action {
            OwnerAction::Patch { kind, name, patch } | OwnerAction::WriteStatus { kind, name, patch } => {
                self.patch(kind, &name, &patch)
            }
            OwnerAction::Adopt { kind, name, patch } => {
                assert!(owner.deletion_timestamp.is_none());
                self.patch(kind, &name, &patch);
            }
            OwnerAction::Delete {
                kind,
                name,
                uid,
                resource_version,
            } => self.delete(kind, &name, uid, resource_version),
            OwnerAction::CreateSet(set) => {
                let mut set = *set;
                let name = set.metadata.name.clone().unwrap();
                if self.sets.contains_key(&name) {
                    self.taken = Some(name);
                    return;
                }
                self.initialize(&mut set.metadata);
                self.sets.insert(name, Arc::new(set));
            }
            OwnerAction::CreateMachines(machines) => {
                for mut machine in machines {
                    let prefix = machine.metadata.generate_name.clone().unwrap();
                    let number = self.initialize(&mut machine.metadata);
                    let name = format!("{prefix}{number}");
                    machine.metadata.name = Some(name.clone());
                    self.created_machines += 1;
                    self.machines.insert(name, Arc::new(machine));
                    self.check_creation();
                }
            }
            OwnerAction::RecordEvent { .. } => {}
        }
    }

    /// Initializes the metadata of a new object; returns its number.
    fn initialize(&mut self, metadata: &mut ObjectMeta) -> u64 {
        self.ids += 1;
        metadata.uid = Some(format!("uid-{}", self.ids));
        metadata.generation = Some(1);
        metadata.creation_timestamp = Some(Time(self.now));
        self.bump(metadata);
        self.ids
    }

    /// Advances the object's resource version.
    pub(super) fn bump(&mut self, metadata: &mut ObjectMeta) {
        self.revision += 1;
        metadata.resource_version = Some(self.revision.to_string());
    }

    fn patch(&mut self, kind: Kind, name: &str, patch: &Value) {
        self.revision += 1;
        let revision = self.revision;
        match kind {
            Kind::Deployment => {
                let new: MachineDeployment = patched(self.deployment.as_ref().unwrap(), patch, revision);
                self.deployment = (!is_deletable(&new.metadata)).then_some(new);
            }
            Kind::Set => {
                let new: MachineSet = patched(&*self.sets[name], patch, revision);
                if is_deletable(&new.metadata) {
                    self.sets.remove(name);
                } else {
                    self.sets.insert(name.to_owned(), Arc::new(new));
                }
            }
            Kind::Machine => {
                let old = Arc::clone(&self.machines[name]);
                let new: Machine = patched(&*old, patch, revision);
                self.machines.insert(name.to_owned(), Arc::new(new));
                self.check_move(&old);
            }
            Kind::Node => {
                let old = Arc::clone(&self.nodes[name]);
                let new: Node = patched(&*old, patch, revision);
                self.nodes.insert(name.to_owned(), Arc::new(new));
                self.check_selection(&old);
            }
        }
    }

    fn delete(&mut self, kind: Kind, name: &str, uid: Option<String>, version: Option<String>) {
        assert!(
            uid.is_some() && version.is_some(),
            "a deletion has the uid and resource version that the decision observed"
        );
        let now = Time(self.now);
        match kind {
            Kind::Set => {
                let mut set = MachineSet::clone(&self.sets.remove(name).unwrap());
                assert_eq!((&set.metadata.uid, &set.metadata.resource_version), (&uid, &version));
                set.metadata.deletion_timestamp = Some(now);
                self.bump(&mut set.metadata);
                if !is_deletable(&set.metadata) {
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
                let (available, prioritized) = (self.is_available(&machine), is_prioritized(&machine));
                machine.metadata.deletion_timestamp = Some(now);
                self.bump(&mut machine.metadata);
                if is_deletable(&machine.metadata) {
                    self.machines.remove(name);
                } else {
                    self.machines.insert(name.to_owned(), Arc::new(machine));
                }
                if available && prioritized {
                    self.note_prioritized_deletion();
                } else if available {
                    self.check_availability(name);
                }
            }
            Kind::Deployment | Kind::Node => panic!("no plan deletes a {kind:?}"),
        }
    }
}

/// Whether the object is being deleted and has no finalizer.
pub(super) fn is_deletable(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// Whether the machine has a deletion priority other than the default.
fn is_prioritized(machine: &Machine) -> bool {
    let annotations = machine.metadata.annotations.as_ref();
    let priority = annotations.and_then(|all| all.get(keys::PRIORITY_ANNOTATION));
    priority.is_some_and(|priority| priority != keys::DEFAULT_PRIORITY)
}

fn patched<T: Serialize + DeserializeOwned>(object: &T, patch: &Value, revision: u64) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    let current = value["metadata"]["resourceVersion"].clone();
    assert_eq!(
        patch["metadata"]["resourceVersion"], current,
        "a patch has the resource version that the decision observed: {patch}"
    );
    let before = value["spec"].clone();
    json_patch::merge(&mut value, patch);
    if value["spec"] != before {
        let generation = value["metadata"]["generation"].as_i64().unwrap_or_default();
        value["metadata"]["generation"] = (generation + 1).into();
    }
    value["metadata"]["resourceVersion"] = revision.to_string().into();
    serde_json::from_value(value).unwrap()
}
