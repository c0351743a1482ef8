//! What the topology shows: zones, VMs, nodes, machines and their owners, each with its state in a word.

use judge::object::{label, text};
use scenario::cloud::Vm;
use serde::Serialize;
use serde_json::Value;

/// The label of the zone of a Node.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The label of a Machine with the name of its Node.
const NODE_LABEL: &str = "node";

/// The kinds of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EntityKind {
    /// A MachineDeployment.
    Deployment,
    /// A MachineSet.
    Set,
    /// A Machine.
    Machine,
    /// A VM.
    Vm,
    /// A Node.
    Node,
}

/// The numbers of a node's pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// Those that run or have succeeded.
    pub running: u32,
    /// Those that wait or are deleted.
    pub pending: u32,
    /// Those that failed.
    pub failed: u32,
}

/// A part of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Identifies it, for example `Machine/default/m-1`.
    pub id: String,
    /// Its kind.
    pub kind: EntityKind,
    /// Its name.
    pub name: String,
    /// Its state: a phase, a VM's state, `Ready` or `NotReady`, or the number of its machines.
    pub state: String,
    /// The id of its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The zone that it is in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// The uid of a machine, and of a VM's machine: machines of several namespaces may have the same name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The name of its machine, of a VM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The name of its Node, of a VM and a machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Its pods, of a Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Pods>,
}

impl Entity {
    fn new(kind: EntityKind, id: String, name: &str, state: String) -> Self {
        Self {
            id,
            kind,
            name: name.to_owned(),
            state,
            parent: None,
            zone: String::new(),
            uid: String::new(),
            machine: String::new(),
            node: String::new(),
            pods: None,
        }
    }

    /// The entity of an object, if the topology shows its kind.
    pub fn of_object(kind: &str, object: &Value) -> Option<Self> {
        let name = text(object, "/metadata/name");
        let id = id_of(kind, text(object, "/metadata/namespace"), name);
        Some(match kind {
            "Machine" => Self {
                parent: owner(object),
                uid: text(object, "/metadata/uid").to_owned(),
                node: label(object, NODE_LABEL).to_owned(),
                ..Self::new(EntityKind::Machine, id, name, phase(object))
            },
            "MachineSet" => Self {
                parent: owner(object),
                ..Self::new(EntityKind::Set, id, name, ready(object))
            },
            "MachineDeployment" => Self::new(EntityKind::Deployment, id, name, ready(object)),
            "Node" => Self {
                zone: label(object, ZONE_LABEL).to_owned(),
                ..Self::new(EntityKind::Node, id, name, node_state(object))
            },
            _ => return None,
        })
    }

    /// The entity of a VM.
    pub fn of_vm(vm: &Vm) -> Self {
        Self {
            zone: zone_of(&vm.provider_id).to_owned(),
            uid: vm.machine_uid.clone(),
            machine: vm.machine.clone(),
            node: vm.node.clone(),
            ..Self::new(EntityKind::Vm, vm_id(&vm.id), &vm.id, vm.state.to_string())
        }
    }
}

/// The id of an object.
pub fn id_of(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind}/{name}"),
        namespace => format!("{kind}/{namespace}/{name}"),
    }
}

/// The id of a VM.
pub(crate) fn vm_id(id: &str) -> String {
    format!("VM/{id}")
}

/// The zone in a provider id such as `fakecloud:///ZONE/VM`; empty: it has none.
fn zone_of(provider_id: &str) -> &str {
    let path = provider_id.split_once(":///").map_or("", |(_, path)| path);
    path.split_once('/').map_or("", |(zone, _)| zone)
}

/// The id of the controlling owner.
pub(crate) fn owner(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let namespace = text(object, "/metadata/namespace");
    Some(id_of(owner["kind"].as_str()?, namespace, owner["name"].as_str()?))
}

fn phase(machine: &Value) -> String {
    if machine.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".to_owned();
    }
    match text(machine, "/status/currentStatus/phase") {
        "" => "new".to_owned(),
        phase => phase.to_owned(),
    }
}

/// The ready and the wanted machines of a set or deployment.
fn ready(object: &Value) -> String {
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas"))
}

fn node_state(node: &Value) -> String {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready = conditions.is_some_and(|all| {
        let ready = all.iter().find(|condition| condition["type"] == "Ready");
        ready.is_some_and(|condition| condition["status"] == "True")
    });
    if is_ready { "Ready" } else { "NotReady" }.to_owned()
}

/// How a pod counts.
pub(crate) fn add_pod(pods: &mut Pods, pod: &Value) {
    let is_deleted = pod.pointer("/metadata/deletionTimestamp").is_some();
    match text(pod, "/status/phase") {
        "Failed" => pods.failed += 1,
        "Running" | "Succeeded" if !is_deleted => pods.running += 1,
        _ => pods.pending += 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_has_its_phase_its_owner_and_its_node() {
        let machine = json!({
            "metadata": {
                "name": "m-1", "namespace": "default", "labels": { "node": "n-1" },
                "ownerReferences": [{ "kind": "MachineSet", "name": "s", "controller": true }],
            },
            "status": { "currentStatus": { "phase": "Running" } },
        });
        let entity = Entity::of_object("Machine", &machine).unwrap();
        assert_eq!(entity.id, "Machine/default/m-1");
        assert_eq!(entity.parent.as_deref(), Some("MachineSet/default/s"));
        assert_eq!((entity.state.as_str(), entity.node.as_str()), ("Running", "n-1"));
    }

    #[test]
    fn a_node_without_a_true_ready_condition_is_not_ready() {
        let node = |status: &str| json!({ "metadata": { "name": "n" }, "status": { "conditions": [{ "type": "Ready", "status": status }] } });
        assert_eq!(Entity::of_object("Node", &node("True")).unwrap().state, "Ready");
        assert_eq!(Entity::of_object("Node", &node("Unknown")).unwrap().state, "NotReady");
        assert_eq!(
            Entity::of_object("Node", &json!({ "metadata": { "name": "n" } }))
                .unwrap()
                .state,
            "NotReady"
        );
    }

    #[test]
    fn the_zone_of_a_vm_is_in_its_provider_id() {
        assert_eq!(zone_of("fakecloud:///z1/vm-1"), "z1");
        assert_eq!(zone_of("other"), "");
    }
}
