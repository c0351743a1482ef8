//! Builders of worlds: a deployment with the sets, machines and nodes that a test case needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::{Machine, MachineSet, Phase, keys};
use mcm_core::deployment::{Reason, Settings, decide};
use mcm_core::steps::{OwnerAction, Plan};
use serde_json::{Value, json};

use super::sequences::deployment;
use super::world::{Actor, World};
use crate::fixtures::minute;

pub fn in_place(how: &str, surge: i32, unavailable: i32) -> Value {
    json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": surge, "maxUnavailable": unavailable, "orchestrationType": how },
    })
}

/// A world with a deployment of `class-a` that has its finalizer, without sets.
pub fn world_of(replicas: i32, strategy: Value) -> World {
    let mut deployment = deployment(replicas, strategy);
    deployment.metadata.finalizers = Some(vec![keys::MACHINE_FINALIZER.to_owned()]);
    let mut world = World::new(deployment);
    world.lenient = true;
    world
}

/// Adds the set `ms<number>` to the deployment; a higher number means a younger set. Its annotation records the
/// deployment's current replicas.
pub fn add_set(world: &mut World, number: i64, class: &str, size: i32) -> String {
    let name = format!("ms{number}");
    let replicas = world.deployment.as_ref().unwrap().spec.replicas;
    let labels = json!({ "name": "md", keys::TEMPLATE_HASH_LABEL: number.to_string() });
    let mut set: MachineSet = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "5", "generation": 1,
            "labels": labels,
            "annotations": {
                keys::REVISION_ANNOTATION: number.to_string(),
                keys::DESIRED_REPLICAS_ANNOTATION: replicas.to_string(),
            },
            "ownerReferences": [{
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment", "name": "md", "uid": "uid-md",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": size,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels }, "spec": { "class": { "kind": "MachineClass", "name": class } },
            },
        },
    }))
    .unwrap();
    set.metadata.creation_timestamp = Some(Time(minute(number)));
    world.sets.insert(name.clone(), Arc::new(set));
    name
}

/// Adds a machine of that set, without a node.
pub fn add_machine(world: &mut World, set: &str, name: &str, phase: Phase) {
    let owner = &world.sets[set];
    let mut machine: Machine = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "3",
            "labels": owner.metadata.labels,
            "ownerReferences": [{
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": set,
                "uid": owner.metadata.uid, "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": owner.spec.template.spec,
    }))
    .unwrap();
    machine.metadata.creation_timestamp = Some(Time(minute(0)));
    machine.status.current_status.phase = Some(phase);
    machine.status.current_status.last_update_time = Some(Time(minute(0)));
    world.machines.insert(name.to_owned(), Arc::new(machine));
}

/// Adds a machine of that set with a node of the same name.
pub fn add_joined(world: &mut World, set: &str, name: &str, phase: Phase) {
    add_machine(world, set, name, phase);
    let node = Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(keys::MACHINE_NAME_LABEL.to_owned(), name.to_owned())])),
            resource_version: Some("2".to_owned()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    world.nodes.insert(name.to_owned(), Arc::new(node));
    world.edit_machine(name, |machine| {
        let labels = machine.metadata.labels.get_or_insert_default();
        labels.insert(keys::NODE_LABEL.to_owned(), name.to_owned());
    });
}

/// Adds a set with `size` Running machines: `PREFIX-0`, `PREFIX-1` and so on.
pub fn add_full_set(world: &mut World, number: i64, class: &str, size: i32, prefix: &str) -> String {
    let set = add_set(world, number, class, size);
    for machine in 0..size {
        add_joined(world, &set, &format!("{prefix}-{machine}"), Phase::Running);
    }
    edit_set(world, &set, |set| {
        let status = &mut set.status;
        (status.replicas, status.ready_replicas, status.available_replicas) = (size, size, size);
        status.observed_generation = 1;
    });
    set
}

pub fn edit_set(world: &mut World, name: &str, change: impl Fn(&mut MachineSet)) {
    let mut set = MachineSet::clone(&world.sets[name]);
    change(&mut set);
    world.sets.insert(name.to_owned(), Arc::new(set));
}

pub fn label_node(world: &mut World, name: &str, key: &str, value: &str) {
    world.edit_node(name, |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(key.to_owned(), value.to_owned());
    });
}

/// The node's agent reported success, and the machine controller copied the condition.
pub fn finish_update(world: &mut World, name: &str) {
    label_node(world, name, keys::SELECTED_FOR_UPDATE_LABEL, "true");
    label_node(world, name, keys::UPDATE_RESULT_LABEL, keys::UPDATE_SUCCESSFUL);
    let condition = NodeCondition {
        type_: keys::IN_PLACE_UPDATE_CONDITION.to_owned(),
        status: "True".to_owned(),
        reason: Some(keys::UPDATE_SUCCESSFUL_REASON.to_owned()),
        ..NodeCondition::default()
    };
    world.edit_machine(name, |machine| {
        machine.status.conditions = vec![condition.clone()];
        machine.status.current_status.phase = Some(Phase::InPlaceUpdateSuccessful);
    });
}

/// The plan of the deployment at this moment.
pub fn plan(world: &World) -> Plan<Reason> {
    decide(&world.deployment_view().unwrap(), Settings::default(), world.now)
}

/// Performs one decision of the deployment.
pub fn decide_once(world: &mut World) {
    world.act(&Actor::Deployment);
}

/// Performs decisions of the deployment until it has nothing to do; sets and machines do not act.
pub fn decide_all(world: &mut World) {
    for _ in 0..20 {
        if !world.act(&Actor::Deployment) {
            return;
        }
    }
    panic!("the deployment does not settle:\n{}", world.tail());
}

pub fn size(world: &World, set: &str) -> i32 {
    world.sets[set].spec.replicas
}

/// Nodes with that label, in the order of their names.
pub fn labelled(world: &World, key: &str) -> Vec<String> {
    let has = |node: &Node| {
        node.metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(key))
    };
    let nodes = world.nodes.iter().filter(|(_, node)| has(node));
    nodes.map(|(name, _)| name.clone()).collect()
}

pub fn node_annotations(world: &World, name: &str) -> BTreeMap<String, String> {
    world.nodes[name].metadata.annotations.clone().unwrap_or_default()
}

pub fn taints(world: &World, name: &str) -> Vec<Taint> {
    let spec = world.nodes[name].spec.clone().unwrap_or_default();
    spec.taints.unwrap_or_default()
}

pub fn set_annotation<'a>(world: &'a World, set: &str, key: &str) -> Option<&'a str> {
    let annotations = world.sets[set].metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The sets that a plan creates.
pub fn new_sets(plan: &Plan<Reason>) -> Vec<&MachineSet> {
    let created = plan.steps.iter().filter_map(|step| match &step.action {
        OwnerAction::CreateSet(set) => Some(&**set),
        _ => None,
    });
    created.collect()
}
