//! The actors of a record, in the order of their first appearance.

use std::collections::{BTreeMap, BTreeSet};

use judge::object::{name, owner, text};
use scenario::cloud::Vm;
use scenario::kinds::Kind;
use serde_json::Value;

use crate::draft::id_of_fault;
use crate::model::{Actor, ActorKind};

/// All actors so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Actors {
    list: Vec<Actor>,
    by_id: BTreeMap<String, usize>,
    /// The machine of each node, by their names.
    machine_of_node: BTreeMap<String, String>,
    /// The node of each machine, by their names.
    node_of_machine: BTreeMap<String, String>,
}

impl Actors {
    /// Adds an actor unless it is known, and completes its parent. Returns its id.
    pub(super) fn add(&mut self, id: &str, kind: ActorKind, name: &str, parent: Option<String>) -> String {
        match self.by_id.get(id) {
            Some(index) => {
                let known = &mut self.list[*index];
                if parent.is_some() {
                    known.parent = parent;
                }
            }
            None => {
                self.by_id.insert(id.to_owned(), self.list.len());
                self.list.push(Actor {
                    id: id.to_owned(),
                    kind,
                    name: name.to_owned(),
                    parent,
                    zone: None,
                });
            }
        }
        id.to_owned()
    }

    /// All actors.
    pub(super) fn list(self) -> Vec<Actor> {
        self.list
    }

    /// The actors with these names that are objects or VMs.
    pub(super) fn named(&self, names: &BTreeSet<&str>) -> impl Iterator<Item = &Actor> {
        let is_named = |actor: &&Actor| {
            let kinds = [
                ActorKind::Deployment,
                ActorKind::Set,
                ActorKind::Machine,
                ActorKind::Vm,
                ActorKind::Node,
                ActorKind::Pod,
            ];
            kinds.contains(&actor.kind) && names.contains(actor.name.as_str())
        };
        self.list.iter().filter(is_named)
    }

    /// The actor of a process.
    pub(super) fn process(&mut self, name: &str) -> String {
        self.add(&format!("process/{name}"), ActorKind::Process, name, None)
    }

    /// The actor of a fault.
    pub(super) fn fault(&mut self, name: &str) -> String {
        self.add(&id_of_fault(name), ActorKind::Fault, name, None)
    }

    /// The actor of a machine.
    pub(super) fn machine(&mut self, name: &str) -> String {
        self.add(&format!("machine/{name}"), ActorKind::Machine, name, None)
    }

    /// The actor of a node.
    fn node(&mut self, name: &str) -> String {
        let machine = self.machine_of_node.get(name).cloned();
        let parent = machine.map(|machine| self.machine(&machine));
        self.add(&format!("node/{name}"), ActorKind::Node, name, parent)
    }

    /// The actor of a machine's node.
    pub(super) fn node_of_machine(&mut self, machine: &str) -> String {
        let node = self.node_of_machine.get(machine);
        let node = node.cloned().unwrap_or_else(|| machine.to_owned());
        self.node(&node)
    }

    /// The name of the machine of a node.
    pub(super) fn machine_name_of_node(&self, node: &str) -> Option<&String> {
        self.machine_of_node.get(node)
    }

    /// The actor of a VM. Its zone becomes known, also as the zone of its machine and node.
    pub(super) fn vm(&mut self, vm: &Vm) -> String {
        let machine = (!vm.machine.is_empty()).then(|| self.machine(&vm.machine));
        let id = self.add(&format!("vm/{}", vm.id), ActorKind::Vm, &vm.id, machine.clone());
        let mut in_zone = vec![id.clone()];
        in_zone.extend(machine);
        if !vm.node.is_empty() && !vm.machine.is_empty() {
            self.machine_of_node.insert(vm.node.clone(), vm.machine.clone());
            self.node_of_machine.insert(vm.machine.clone(), vm.node.clone());
            in_zone.push(self.node(&vm.node));
        }
        if let Some(zone) = zone_of(&vm.provider_id) {
            let zone = self.add(&format!("zone/{zone}"), ActorKind::Zone, zone, None);
            for id in in_zone {
                if let Some(index) = self.by_id.get(&id) {
                    self.list[*index].zone = Some(zone.clone());
                }
            }
        }
        id
    }

    /// The actor of an object.
    pub(super) fn object(&mut self, kind: &Kind, object: &Value) -> String {
        let name = name(object);
        match kind.key {
            "Machine" => {
                let set = owner(object, "MachineSet");
                let parent = set.map(|set| self.add(&format!("set/{set}"), ActorKind::Set, set, None));
                self.add(&format!("machine/{name}"), ActorKind::Machine, name, parent)
            }
            "MachineSet" => {
                let deployment = owner(object, "MachineDeployment");
                let parent = deployment.map(|deployment| self.deployment(deployment));
                self.add(&format!("set/{name}"), ActorKind::Set, name, parent)
            }
            "MachineDeployment" => self.deployment(name),
            "Node" => self.node(name),
            "Pod" => {
                let node = text(object, "/spec/nodeName").to_owned();
                let parent = (!node.is_empty()).then(|| self.node(&node));
                let namespace = text(object, "/metadata/namespace");
                self.add(&format!("pod/{namespace}/{name}"), ActorKind::Pod, name, parent)
            }
            key => self.other(key, text(object, "/metadata/namespace"), name),
        }
    }

    /// The actor of the object that a Kubernetes Event is about.
    pub(super) fn involved(&mut self, kind: &str, namespace: &str, name: &str) -> String {
        match kind {
            "Machine" => self.machine(name),
            "MachineSet" => self.add(&format!("set/{name}"), ActorKind::Set, name, None),
            "MachineDeployment" => self.deployment(name),
            "Node" => self.node(name),
            "Pod" => self.add(&format!("pod/{namespace}/{name}"), ActorKind::Pod, name, None),
            kind => self.other(kind, namespace, name),
        }
    }

    fn deployment(&mut self, name: &str) -> String {
        self.add(&format!("deployment/{name}"), ActorKind::Deployment, name, None)
    }

    fn other(&mut self, key: &str, namespace: &str, name: &str) -> String {
        let id = format!("object/{key}/{namespace}/{name}");
        self.add(&id, ActorKind::Object, &format!("{key} {name}"), None)
    }
}

/// The zone in a provider ID such as `fakecloud:///z1/vm-1`.
pub(super) fn zone_of(provider_id: &str) -> Option<&str> {
    let (_, path) = provider_id.split_once(":///")?;
    let (zone, _) = path.split_once('/')?;
    (!zone.is_empty()).then_some(zone)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("fakecloud:///z1/vm-1", Some("z1"))]
    #[case("fakecloud:///vm-1", None)]
    #[case("", None)]
    fn the_zone_is_the_first_part_of_a_provider_id(#[case] provider_id: &str, #[case] expected: Option<&str>) {
        assert_eq!(zone_of(provider_id), expected);
    }
}
