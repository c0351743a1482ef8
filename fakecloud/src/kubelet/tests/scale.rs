//! Many kubelets in one fleet.

use std::time::Duration;

use super::world::World;
use crate::Config;
use crate::kubelet::calls::{Effect, Outcome, Request};
use crate::kubelet::facts::NodeFacts;
use crate::kubelet::objects::Host;

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A world with that many machines, which all have joined.
fn joined(count: usize) -> (World, u64) {
    let mut world = World::with_config(Config::default());
    for index in 0..count {
        world.create(&format!("machine-{index:05}"), "");
    }
    world.now = super::world::at(4);
    world.cloud.advance(world.now);
    let before = resident();
    for vm in world.cloud.vms() {
        let machine_type = world.cloud.config().machine_types.get(&vm.machine_type);
        world.fleet.vm(vm, |vm| Host::of(vm, machine_type), world.now);
    }
    (world, before)
}

/// Lets the fleet go on until `end` with an API server that keeps nothing; answers how many calls it
/// made.
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
fn a_node_costs_one_call_each_ten_seconds_and_a_status_each_five_minutes() {
    let (mut world, _) = joined(50);
    run(&mut world, 10);
    assert_eq!(run(&mut world, 10 + 300), 50 * (30 + 1));
}

#[test]
#[ignore = "it measures: cargo test --release -p fakecloud -- --ignored --nocapture ten_thousand"]
fn ten_thousand_kubelets_and_what_they_take() {
    let count = 10_000;
    let (mut world, before) = joined(count);
    run(&mut world, 60);
    let bytes = (resident() - before) / count as u64;
    #[allow(clippy::disallowed_methods)] // it measures how long the machine takes
    let started = std::time::Instant::now();
    let calls = run(&mut world, 60 + 600);
    let took: Duration = started.elapsed();
    println!("{bytes} bytes a kubelet; {calls} calls of ten virtual minutes in {took:?}");
    assert!(bytes < 64 * 1024, "{bytes} bytes a kubelet");
}
