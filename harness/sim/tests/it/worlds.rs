//! Small worlds for the determinism check: one deterministic, the others with one deliberate leak each.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use sim::{Keep, Run, World, run};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const NAMES: [&str; 8] = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"];

/// Whether Tokio randomizes the branch order of the world's `select!`s.
#[derive(Clone, Copy)]
pub enum Selects {
    Biased,
    Unbiased,
}

/// Several tasks that race: timers, channels, selects, a hash map's order, seeded draws.
pub fn deterministic(seed: u64, selects: Selects) -> Run {
    run(seed, |world| async move {
        world.trace.keep(Keep::All);
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for name in NAMES {
            tasks.spawn(task(world.clone(), name, sender.clone()));
        }
        drop(sender);
        let (other, mut others) = mpsc::unbounded_channel();
        (0..20).for_each(|number| other.send(number).unwrap());
        drop(other);
        let mut open = true;
        while open {
            open = match selects {
                Selects::Biased => tokio::select! {
                    biased;
                    Some(number) = others.recv() => record(&world, "other", number),
                    Some(number) = receiver.recv() => record(&world, "task", number),
                    else => false,
                },
                Selects::Unbiased => tokio::select! {
                    Some(number) = others.recv() => record(&world, "other", number),
                    Some(number) = receiver.recv() => record(&world, "task", number),
                    else => false,
                },
            };
        }
        record_in_hash_order(&world, &map_of_names());
        Run::of(&world.trace)
    })
}

fn record(world: &World, source: &str, number: u64) -> bool {
    world.trace.record(source, number.to_string());
    true
}

async fn task(world: World, name: &'static str, results: mpsc::UnboundedSender<u64>) {
    let mut draws = world.seed.stream(name);
    for _ in 0..5 {
        world.clock.sleep(Duration::from_millis(draws.below(3))).await;
        world.trace.record(name, draws.uuid());
        results.send(draws.below(1000)).unwrap();
    }
}

pub fn map_of_names() -> HashMap<&'static str, usize> {
    NAMES.into_iter().zip(0..).collect()
}

fn record_in_hash_order(world: &World, map: &HashMap<&str, usize>) {
    for (name, number) in map {
        world.trace.record(name, number.to_string());
    }
}

/// Leak: sorts names by a hash with keys of the caller's thread.
pub fn in_order_of(seed: u64, keys: RandomState) -> Run {
    run(seed, |world| async move {
        let mut names = NAMES;
        names.sort_by_key(|name| keys.hash_one(name));
        names
            .into_iter()
            .for_each(|name| world.trace.record(name, "sorted by hash"));
        Run::of(&world.trace)
    })
}

/// Leak: iterates over a map that got its keys before the simulation was seeded.
pub fn over_a_map_from_outside(seed: u64, map: HashMap<&'static str, usize>) -> Run {
    run(seed, |world| async move {
        record_in_hash_order(&world, &map);
        Run::of(&world.trace)
    })
}

/// Leak: a delay that does not come from the seed.
pub fn delayed_by(seed: u64, milliseconds: u64) -> Run {
    run(seed, |world| async move {
        world.clock.sleep(Duration::from_millis(milliseconds)).await;
        world.trace.record("late", seed.to_string());
        Run::of(&world.trace)
    })
}
