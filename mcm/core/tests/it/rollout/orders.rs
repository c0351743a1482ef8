//! Whole rollouts in a thousand random orders, each with one disturbance, and rollouts with random numbers.
//!
//! Each run draws new seeds. A failed run prints its first seed; set `SEQUENCE_SEED` to repeat it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use mcm_api::deployment::RollbackConfig;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::sequences::{class, deployment, in_place, recreate, replicas, rolling};
use super::world::World;
use crate::dice::Dice;

/// A disturbance during a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    Nothing,
    ScaleUp,
    ScaleDown,
    ToZero,
    RollBack,
    AnotherTemplate,
    PauseAndResume,
    /// Nodes and in-place updates fail.
    Fail,
}

const DISTURBANCES: [Disturbance; 8] = [
    Disturbance::Nothing,
    Disturbance::ScaleUp,
    Disturbance::ScaleDown,
    Disturbance::ToZero,
    Disturbance::RollBack,
    Disturbance::AnotherTemplate,
    Disturbance::PauseAndResume,
    Disturbance::Fail,
];

/// Applies the disturbance; returns the class that the rollout ends with.
fn disturb(world: &mut World, what: Disturbance, dice: &mut Dice) -> &'static str {
    let wanted = world.deployment.as_ref().unwrap().spec.replicas;
    match what {
        Disturbance::Nothing => {}
        Disturbance::ScaleUp => replicas(world, wanted + 4),
        Disturbance::ScaleDown => replicas(world, (wanted - 3).max(1)),
        Disturbance::ToZero => {
            replicas(world, 0);
            world.act_randomly(dice, 100);
            replicas(world, wanted);
        }
        Disturbance::RollBack => {
            let has_history = world.sets.len() > 1;
            world.edit("rollback", |one| one.spec.rollback_to = Some(RollbackConfig::default()));
            return if has_history { "class-a" } else { "class-b" };
        }
        Disturbance::AnotherTemplate => {
            class(world, "class-c");
            return "class-c";
        }
        Disturbance::PauseAndResume => {
            world.edit("pause", |one| one.spec.paused = true);
            world.act_randomly(dice, 100);
            world.edit("resume", |one| one.spec.paused = false);
        }
        Disturbance::Fail => {
            world.failing_updates = 1;
            for _ in 0..2.min(world.nodes.len()) {
                let names: Vec<String> = world.nodes.keys().cloned().collect();
                let name = dice.pick(&names);
                world.log(format!("  (node {name} fails)"));
                world.set_ready(name, false);
            }
        }
    }
    "class-b"
}

/// The number of rollouts that each disturbance interrupted.
type Interrupted = BTreeMap<Disturbance, usize>;

/// One rollout in the order of the seed.
fn roll_out(seed: u64, strategies: &[Value], interrupted: &mut Interrupted) {
    let mut dice = Dice::new(seed);
    let strategy = dice.pick(strategies).clone();
    let what = *dice.pick(&DISTURBANCES);
    let size = 1 + dice.below(6) as i32;
    let mut world = World::new(deployment(size, strategy.clone()));
    world.drain = dice.below(4);
    world.updates_at_a_time = if strategy["inPlaceUpdate"]["orchestrationType"] == "Manual" {
        *dice.pick(&[1, 2, usize::MAX])
    } else {
        0
    };
    world.log(format!("seed {seed}: {size} machines, {strategy}, {what:?}"));
    world.settle_in_random_order(&mut dice);
    world.assert_settled("class-a");
    world.undisturbed = what == Disturbance::Nothing;
    class(&mut world, "class-b");
    let steps = dice.below(80 * size as usize);
    world.act_randomly(&mut dice, steps);
    let possible = match what {
        Disturbance::ScaleDown => size > 1,
        Disturbance::Fail => !world.nodes.is_empty(),
        _ => true,
    };
    if possible && world.is_in_progress() {
        *interrupted.entry(what).or_default() += 1;
    }
    let ends = disturb(&mut world, what, &mut dice);
    world.settle_past_timeouts(&mut dice);
    world.assert_settled(ends);
}

/// The first seed of this run.
fn first_seed() -> u64 {
    let given = std::env::var("SEQUENCE_SEED").ok();
    // The keys of a hasher are random in each run.
    let drawn = || RandomState::new().build_hasher().finish() >> 16;
    given.map_or_else(drawn, |given| given.parse().expect("SEQUENCE_SEED is a number"))
}

/// Prints how to repeat a failed run.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "repeat with the same seeds: SEQUENCE_SEED={} cargo test -p mcm-core rollouts_in_random_orders",
                self.0
            );
        }
    }
}

/// 250 seeds for each of the four cases.
#[rstest]
#[case::rolling_update(&[rolling(1, 0), rolling(0, 1), rolling(3, 2), rolling("30%", "20%")])]
#[case::recreate(&[recreate()])]
#[case::in_place(&[in_place("Auto", 0, 1), in_place("Auto", 1, 1), in_place("Auto", 1, 0), in_place("Auto", "30%", "40%")])]
#[case::in_place_manual(&[in_place("Manual", 0, 1), in_place("Manual", 0, "40%")])]
fn rollouts_in_random_orders_keep_their_bounds(#[case] strategies: &[Value]) {
    let mut interrupted = Interrupted::new();
    let first = first_seed();
    let _replay = Replay(first);
    for seed in first..first + 250 {
        roll_out(seed, strategies, &mut interrupted);
    }
    let missing: Vec<_> = DISTURBANCES
        .iter()
        .filter(|what| !interrupted.contains_key(what))
        .collect();
    assert!(
        missing.is_empty(),
        "no rollout is interrupted by {missing:?}: {interrupted:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn rollouts_with_random_numbers_keep_their_bounds_and_complete(
        size in 0i32..10,
        surge in 0i32..12,
        unavailable in 0i32..12,
        in_percent in any::<bool>(),
        how in prop_oneof![Just(""), Just("Auto"), Just("Manual")],
        later in 0i32..12,
        steps in 0usize..600,
        seed in any::<u64>(),
    ) {
        prop_assume!(surge + unavailable > 0);
        let number = |value: i32| if in_percent { json!(format!("{}%", value * 7)) } else { json!(value) };
        let strategy = if how.is_empty() {
            rolling(number(surge), number(unavailable))
        } else {
            in_place(how, number(surge), number(unavailable))
        };
        let mut dice = Dice::new(seed);
        let mut world = World::new(deployment(size, strategy.clone()));
        world.updates_at_a_time = if how == "Manual" { 2 } else { 0 };
        world.log(format!("{size} machines, {strategy}, later {later}"));
        world.settle_in_random_order(&mut dice);
        class(&mut world, "class-b");
        world.act_randomly(&mut dice, steps);
        replicas(&mut world, later);
        world.settle_in_random_order(&mut dice);
        world.assert_settled("class-b");
    }
}
