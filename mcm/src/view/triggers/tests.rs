//! Work that results from changes, and tracking of deletions.

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use mcm_api::MachineSet;
use mcm_core::preservation::ListView;
use serde_json::json;

use super::*;
use crate::view::EnabledControllers;
use crate::view::cluster_state::TargetState;

fn state() -> (ClusterState, TargetState) {
    let state = ClusterState::new(
        "default",
        true,
        EnabledControllers {
            machines: true,
            sets: true,
            deployments: true,
            health_checks: false,
        },
        Timestamp::UNIX_EPOCH,
    );
    let target = state.target.clone().unwrap();
    (state, target)
}

fn node(name: &str) -> Node {
    let node = json!({ "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1" } });
    serde_json::from_value(node).unwrap()
}

fn machine_on(node: &str) -> Machine {
    let machine = json!({
        "metadata": {
            "name": "m1", "namespace": "default", "uid": "m", "resourceVersion": "1", "labels": { "node": node },
        },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    serde_json::from_value(machine).unwrap()
}

/// Creates and deletes a Node; returns whether its deletion is remembered.
fn is_remembered(state: &ClusterState, target: &TargetState, name: &str) -> bool {
    target.nodes.apply(Event::Apply(node(name)));
    let changes = target.nodes.apply(Event::Delete(node(name)));
    state.all(changes, ClusterState::node_changed);
    target.nodes.was_deleted(&Key::new("", name))
}

#[test]
fn a_deleted_node_is_remembered_while_a_machine_references_it() {
    let (state, target) = state();
    state.machines.apply(Event::Apply(machine_on("n1")));
    assert!(is_remembered(&state, &target, "n1"));
    assert!(!is_remembered(&state, &target, "n2"), "no machine references it");
    let changes = state.machines.apply(Event::Delete(machine_on("n1")));
    state.all(changes, ClusterState::machine_changed);
    assert!(!target.nodes.was_deleted(&Key::new("", "n1")));
}

#[test]
fn deletions_of_pods_are_not_tracked() {
    let (_, target) = state();
    let pod = json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "p", "resourceVersion": "1" } });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    target.pods.apply(Event::Apply(pod.clone()));
    target.pods.apply(Event::Delete(pod));
    assert!(!target.pods.was_deleted(&Key::new("shop", "web")));
}

#[test]
fn selecting_a_node_for_an_update_in_place_triggers_its_machine() {
    let (state, target) = state();
    state.machines.apply(Event::Apply(machine_on("n1")));
    target.nodes.apply(Event::Apply(node("n1")));
    let mut tainted = node("n1");
    tainted.metadata.resource_version = Some("2".to_owned());
    target.nodes.wrote(tainted.clone());
    assert!(state.own_triggers().is_empty(), "no update was requested");
    let mut selected = tainted;
    selected.metadata.resource_version = Some("3".to_owned());
    selected
        .labels_mut()
        .insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
    target.nodes.wrote(selected);
    let works: Vec<Work> = state.own_triggers().into_iter().map(|trigger| trigger.work).collect();
    assert_eq!(works, [Work::Machine(Key::new("default", "m1"))]);
}

/// A set without a deployment whose list contains machine `m1`, and that machine.
fn listed(released: bool) -> (MachineSet, Machine) {
    let set = json!({
        "metadata": { "name": "ms", "namespace": "default", "uid": "s", "resourceVersion": "1" },
        "spec": { "autoPreserveFailedMax": 1 },
        "status": { "preservations": [{ "uid": "m", "name": "m1", "by": "auto", "released": released }] },
    });
    let mut machine = machine_on("n1");
    let owner = json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "ms", "uid": "s", "controller": true });
    machine.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    (serde_json::from_value(set).unwrap(), machine)
}

#[test]
fn the_machine_controller_alone_reads_the_lists_of_preserved_machines() {
    let enabled = EnabledControllers {
        machines: true,
        sets: false,
        deployments: false,
        health_checks: false,
    };
    let state = ClusterState::new("default", true, enabled, Timestamp::UNIX_EPOCH);
    let (set, machine) = listed(true);
    state.sets.apply(Event::Apply(set.clone()));
    assert!(matches!(state.owners_list(&machine), ListView::Known { entry: Some(entry), .. } if entry.released));
    let change = Change {
        old: Some(Arc::new(listed(false).0)),
        new: Some(Arc::new(set)),
        first_list: false,
    };
    let triggers = state.all(vec![change], ClusterState::set_changed);
    assert_eq!(triggers.len(), 1, "no work of disabled controllers: {triggers:?}");
    assert_eq!(triggers[0].work, Work::Machine(Key::new("default", "m1")));
}
