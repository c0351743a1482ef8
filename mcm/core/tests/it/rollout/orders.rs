//! Whole rollouts in a thousand orders, each with something that happens in its midst, and with any numbers.
//!
//! The seeds are drawn anew in each run; `SEQUENCE_SEED` is the first one of a run that failed, which says it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use mcm_api::deployment::RollbackConfig;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::sequences::{class, deployment, in_place, recreate, replicas, rolling};
use super::world::World;
use crate::dice::Dice;

/// What happens in the midst of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    Nothing,
    ScaleUp,
    ScaleDown,
    ToZero,
    RollBack,
    /// Another template.
    Another,
    PauseAndResume,
    /// Nodes die, and updates in place fail.
    Fail,
}

const DISTURBANCES: [Disturbance; 8] = [
    Disturbance::Nothing,
    Disturbance::ScaleUp,
    Disturbance::ScaleDown,
    Disturbance::ToZero,
    Disturbance::RollBack,
    Disturbance::Another,
    Disturbance::PauseAndResume,
    Disturbance::Fail,
];

/// Carries it out; answers the class that the rollout ends with.
fn disturb(world: &mut World, what: Disturbance, dice: &mut Dice) -> &'static str {
    let wanted = world.deployment.as_ref().unwrap().spec.replicas;
    match what {
        Disturbance::Nothing => {}
        Disturbance::ScaleUp => replicas(world, wanted + 4),
        Disturbance::ScaleDown => replicas(world, (wanted - 3).max(1)),
        Disturbance::ToZero => {
            replicas(world, 0);
            world.stir(dice, 100);
            replicas(world, wanted);
        }
        Disturbance::RollBack => {
            let has_history = world.sets.len() > 1;
            world.edit("rollback", |one| one.spec.rollback_to = Some(RollbackConfig::default()));
            return if has_history { "class-a" } else { "class-b" };
        }
        Disturbance::Another => {
            class(world, "class-c");
            return "class-c";
        }
        Disturbance::PauseAndResume => {
            world.edit("pause", |one| one.spec.paused = true);
            world.stir(dice, 100);
            world.edit("resume", |one| one.spec.paused = false);
        }
        Disturbance::Fail => {
            world.failing_updates = 1;
            for _ in 0..2.min(world.nodes.len()) {
                let names: Vec<String> = world.nodes.keys().cloned().collect();
                let name = dice.pick(&names);
                world.tell(format!("  (the node {name} dies)"));
                world.set_ready(name, false);
            }
        }
    }
    "class-b"
}

/// How many rollouts were disturbed by what, while machines of both templates were there.
type Seen = BTreeMap<Disturbance, usize>;

/// One rollout in the order of the seed.
fn roll_out(seed: u64, strategies: &[Value], seen: &mut Seen) {
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
    world.tell(format!("seed {seed}: {size} machines, {strategy}, {what:?}"));
    world.settle_anyhow(&mut dice);
    world.assert_settled("class-a");
    world.undisturbed = what == Disturbance::Nothing;
    class(&mut world, "class-b");
    let steps = dice.below(80 * size as usize);
    world.stir(&mut dice, steps);
    let possible = match what {
        Disturbance::ScaleDown => size > 1,
        Disturbance::Fail => !world.nodes.is_empty(),
        _ => true,
    };
    if possible && world.is_under_way() {
        *seen.entry(what).or_default() += 1;
    }
    let ends = disturb(&mut world, what, &mut dice);
    world.settle_for_good(&mut dice);
    world.assert_settled(ends);
}

/// The first seed of this run.
fn first_seed() -> u64 {
    let given = std::env::var("SEQUENCE_SEED").ok();
    // What a hasher is made with differs from run to run.
    let drawn = || RandomState::new().build_hasher().finish() >> 16;
    given.map_or_else(drawn, |given| given.parse().expect("SEQUENCE_SEED is a number"))
}

/// Says how a run that fails is repeated.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the same seeds again: SEQUENCE_SEED={} cargo test -p mcm-core rollouts_in_a_thousand",
                self.0
            );
        }
    }
}

/// Four times 250 seeds.
#[rstest]
#[case::rolling_update(&[rolling(1, 0), rolling(0, 1), rolling(3, 2), rolling("30%", "20%")])]
#[case::recreate(&[recreate()])]
#[case::in_place(&[in_place("Auto", 0, 1), in_place("Auto", 1, 1), in_place("Auto", 1, 0), in_place("Auto", "30%", "40%")])]
#[case::in_place_by_hand(&[in_place("Manual", 0, 1), in_place("Manual", 0, "40%")])]
fn rollouts_in_a_thousand_orders_keep_their_bounds(#[case] strategies: &[Value]) {
    let mut seen = Seen::new();
    let first = first_seed();
    let _replay = Replay(first);
    for seed in first..first + 250 {
        roll_out(seed, strategies, &mut seen);
    }
    let missing: Vec<_> = DISTURBANCES.iter().filter(|what| !seen.contains_key(what)).collect();
    assert!(missing.is_empty(), "no rollout is disturbed by {missing:?}: {seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_numbers_a_rollout_keeps_its_bounds_and_ends(
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
        world.tell(format!("{size} machines, {strategy}, later {later}"));
        world.settle_anyhow(&mut dice);
        class(&mut world, "class-b");
        world.stir(&mut dice, steps);
        replicas(&mut world, later);
        world.settle_anyhow(&mut dice);
        world.assert_settled("class-b");
    }
}
