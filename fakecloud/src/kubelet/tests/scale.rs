//! Many kubelets in one fleet.

use super::world::World;
use crate::Config;
use crate::kubelet::calls::{Effect, Outcome, Request};
use crate::kubelet::facts::NodeFacts;
use crate::kubelet::objects::Host;

/// A world with a number of machines that have all joined.
fn joined(count: usize) -> World {
    let mut world = World::with_config(Config::default());
    for index in 0..count {
        world.create(&format!("machine-{index:05}"), "");
    }
    world.now = super::world::at(4);
    world.cloud.advance(world.now);
    for vm in world.cloud.vms() {
        let machine_type = world.cloud.settings().machine_types.get(&vm.machine_type);
        world.fleet.vm(vm, |vm| Host::of(vm, machine_type), world.now);
    }
    world
}

/// Runs the fleet until `end` with an API server that stores nothing; returns the number of calls.
fn run(world: &mut World, end: i64) -> usize {
    let end = super::world::at(end);
    let mut calls = 0;
    while let Some(next) = world.fleet.next_deadline().filter(|next| *next <= end) {
        world.now = world.now.max(next);
        world.fleet.advance(world.now);
        for effect in world.fleet.take_effects() {
            let Effect::Call(run, request) = effect else { continue };
            calls += 1;
            let outcome = match &request {
                Request::Register { node } => Outcome::Node(Box::new(NodeFacts {
                    uid: format!("{calls:08}-0000-0000-0000-000000000000"),
                    ..NodeFacts::of(node)
                })),
                Request::NodeStatus { patch, .. } => Outcome::Node(Box::new(NodeFacts {
                    uid: patch["metadata"]["uid"].as_str().unwrap().to_owned(),
                    provider_id: patch["status"]["nodeInfo"]["systemUUID"].as_str().unwrap().to_owned(),
                    conditions: patch["status"]["conditions"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|condition| (condition["type"].as_str().unwrap().to_owned(), "False".to_owned()))
                        .collect(),
                    ..NodeFacts::default()
                })),
                _ => Outcome::Done,
            };
            world.fleet.done(run, &request, outcome, world.now);
        }
    }
    calls
}

#[test]
fn a_node_costs_one_call_per_ten_seconds_and_a_status_per_five_minutes() {
    let mut world = joined(50);
    run(&mut world, 10);
    assert_eq!(run(&mut world, 10 + 300), 50 * (30 + 1));
}
