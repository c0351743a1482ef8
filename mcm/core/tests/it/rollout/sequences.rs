//! Whole rollouts in fixed order, and in one seeded order with a snapshot of the narrative.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mcm_api::deployment::RollbackConfig;
use mcm_api::{MachineDeployment, Phase};
use rstest::rstest;
use serde_json::{Value, json};

use super::machines::is_selected;
use super::world::{Actor, World};
use crate::dice::Dice;

/// A deployment of class `class-a`.
pub fn deployment(replicas: i32, strategy: Value) -> MachineDeployment {
    serde_json::from_value(json!({
        "metadata": { "name": "md", "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "name": "md" } },
            "strategy": strategy,
            "template": {
                "metadata": { "labels": { "name": "md" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }))
    .unwrap()
}

pub fn rolling(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": { "maxSurge": surge.into(), "maxUnavailable": unavailable.into() },
    })
}

pub fn recreate() -> Value {
    json!({ "type": "Recreate" })
}

pub fn in_place(how: &str, surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": {
            "maxSurge": surge.into(), "maxUnavailable": unavailable.into(), "orchestrationType": how,
        },
    })
}

pub fn class(world: &mut World, class: &str) {
    world.edit(&format!("class {class}"), |one| {
        one.spec.template.spec.class.name = class.to_owned()
    });
}

pub fn replicas(world: &mut World, replicas: i32) {
    world.edit(&format!("replicas {replicas}"), |one| one.spec.replicas = replicas);
}

#[test]
fn an_in_place_update_whose_surge_machine_was_scaled_down_gets_another() {
    let mut world = World::new(deployment(4, in_place("Auto", 1, 0)));
    world.settle();
    class(&mut world, "class-b");
    let surge_is_running = |world: &World| {
        let mut machines = world.machines.values();
        machines.any(|machine| {
            machine.spec.class.name == "class-b" && machine.status.current_status.phase == Some(Phase::Running)
        })
    };
    while !surge_is_running(&world) {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    replicas(&mut world, 2);
    world.settle();
    world.assert_settled("class-b");
}

#[rstest]
#[case::surge_one(rolling(1, 0))]
#[case::unavailable_one(rolling(0, 1))]
#[case::both(rolling(2, 1))]
#[case::percent("25%")]
#[case::recreate(recreate())]
#[case::in_place(in_place("Auto", 0, 1))]
#[case::in_place_two(in_place("Auto", 1, 2))]
fn a_rollout_in_fixed_order_completes(#[case] strategy: impl Into<Value>) {
    let strategy: Value = strategy.into();
    let strategy = if strategy.is_string() {
        rolling(strategy.clone(), strategy)
    } else {
        strategy
    };
    let mut world = World::new(deployment(6, strategy));
    world.settle();
    world.assert_settled("class-a");
    assert_eq!(world.created_machines, 6, "{}", world.tail());
    class(&mut world, "class-b");
    world.settle();
    world.assert_settled("class-b");
}

#[test]
fn the_narrative_of_a_rolling_update() {
    let mut dice = Dice::new(7);
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle_in_random_order(&mut dice);
    class(&mut world, "class-b");
    world.settle_in_random_order(&mut dice);
    world.assert_settled("class-b");
    insta::assert_snapshot!(world.narrative.join("\n"));
}

#[rstest]
#[case::recreate(7, recreate(), 0)]
#[case::in_place(7, in_place("Auto", 1, 0), 0)]
#[case::in_place_manual(7, in_place("Manual", 0, 1), 1)]
fn the_narrative_of_other_strategies(#[case] seed: u64, #[case] strategy: Value, #[case] updates_at_a_time: usize) {
    let mut dice = Dice::new(seed);
    let how = strategy["inPlaceUpdate"]["orchestrationType"]
        .as_str()
        .unwrap_or("Recreate")
        .to_owned();
    let mut world = World::new(deployment(3, strategy));
    world.updates_at_a_time = updates_at_a_time;
    world.settle_in_random_order(&mut dice);
    class(&mut world, "class-b");
    world.settle_in_random_order(&mut dice);
    world.assert_settled("class-b");
    insta::assert_snapshot!(how, world.narrative.join("\n"));
}

#[test]
fn the_narrative_of_a_scaled_and_rolled_back_rollout() {
    let mut dice = Dice::new(11);
    let mut world = World::new(deployment(4, rolling(1, 1)));
    world.settle_in_random_order(&mut dice);
    class(&mut world, "class-b");
    world.act_randomly(&mut dice, 60);
    replicas(&mut world, 6);
    world.act_randomly(&mut dice, 60);
    world.edit("rollback", |one| one.spec.rollback_to = Some(RollbackConfig::default()));
    world.settle_in_random_order(&mut dice);
    world.assert_settled("class-a");
    insta::assert_snapshot!(world.narrative.join("\n"));
}

#[test]
fn a_user_selects_the_nodes_of_a_manual_update() {
    let mut world = World::new(deployment(3, in_place("Manual", 0, 1)));
    world.settle();
    class(&mut world, "class-b");
    world.settle();
    let moved = |world: &World| {
        let newest = world
            .sets
            .values()
            .find(|set| set.spec.template.spec.class.name == "class-b")
            .unwrap();
        newest.spec.replicas
    };
    assert_eq!(
        moved(&world),
        0,
        "no machine moves without a selection:\n{}",
        world.tail()
    );
    for count in 1..=3 {
        let name = world
            .nodes
            .iter()
            .find(|(_, node)| {
                node.metadata
                    .labels
                    .as_ref()
                    .unwrap()
                    .contains_key(mcm_api::keys::CANDIDATE_FOR_UPDATE_LABEL)
            })
            .map(|(name, _)| name.clone())
            .unwrap();
        world.edit_node(&name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(mcm_api::keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
        });
        world.settle();
        assert_eq!(moved(&world), count, "{}", world.tail());
    }
    assert_eq!(world.created_machines, 3, "no machine is replaced:\n{}", world.tail());
    world.assert_settled("class-b");
}

#[test]
fn a_rollout_whose_machines_never_join_keeps_the_required_availability() {
    let mut world = World::new(deployment(5, rolling(1, 1)));
    world.settle();
    world.broken.insert("class-b".to_owned());
    class(&mut world, "class-b");
    let mut dice = Dice::new(3);
    for _ in 0..5 {
        world.act_randomly(&mut dice, 400);
        assert!(world.available() >= 4, "{}", world.tail());
        world.advance(SignedDuration::from_mins(21));
    }
    assert!(
        world.created_machines > 8,
        "machines that never join are replaced:\n{}",
        world.tail()
    );
    class(&mut world, "class-a");
    world.settle();
    world.assert_settled("class-a");
}

#[test]
fn scaling_from_zero_to_a_thousand_and_back_creates_no_surplus() {
    let mut world = World::new(deployment(0, rolling(1, 0)));
    world.settle();
    replicas(&mut world, 1000);
    world.settle();
    assert_eq!(world.created_machines, 1000);
    replicas(&mut world, 0);
    world.settle();
    assert_eq!((world.created_machines, world.machines.len()), (1000, 0));
}

#[test]
fn a_deleted_deployment_deletes_its_sets_and_machines() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    class(&mut world, "class-b");
    world.act_randomly(&mut Dice::new(1), 40);
    let now = world.now;
    world.edit("delete", |one| {
        one.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    world.settle();
    assert!(
        world.deployment.is_none() && world.sets.is_empty() && world.machines.is_empty(),
        "{}",
        world.tail()
    );
}

#[test]
fn percentages_that_round_to_zero_do_not_block_a_rollout() {
    let mut world = World::new(deployment(2, rolling("0%", "10%")));
    world.edit("check", |one| {
        let bounds = one.spec.strategy.rolling_update.clone().unwrap();
        assert_eq!(bounds.max_unavailable, Some(IntOrString::String("10%".to_owned())));
    });
    world.settle();
    class(&mut world, "class-b");
    world.settle();
    world.assert_settled("class-b");
}

/// Starts in-place updates of all nodes at once, of which the first `failing` fail.
fn updated_at_once(size: i32, failing: usize) -> World {
    let mut world = World::new(deployment(size, in_place("Manual", 0, 1)));
    world.settle();
    world.updates_at_a_time = usize::MAX;
    world.failing_updates = failing;
    class(&mut world, "class-b");
    world
}

#[test]
fn failed_in_place_updates_do_not_wait_for_each_other() {
    let mut world = updated_at_once(3, 2);
    world.settle_past_timeouts(&mut Dice::new(1));
    world.assert_settled("class-b");
    assert_eq!(
        world.created_machines,
        5,
        "two machines are replaced:\n{}",
        world.tail()
    );
}

#[test]
fn a_machine_whose_update_failed_is_replaced_although_its_node_is_healthy() {
    let mut world = updated_at_once(1, 1);
    world.settle();
    world.advance(SignedDuration::from_mins(11));
    let name = world.machines.keys().next().cloned().unwrap();
    for _ in 0..3 {
        world.act(&Actor::Machine(name.clone()));
    }
    let phase = world.machines[&name].status.current_status.phase.clone();
    assert_eq!(phase, Some(Phase::Failed), "{}", world.tail());
    world.settle();
    world.assert_settled("class-b");
}

#[test]
fn a_surge_machine_stays_while_nodes_of_a_reverted_template_are_updated() {
    let mut world = World::new(deployment(4, in_place("Auto", 1, 1)));
    world.settle();
    class(&mut world, "class-b");
    let two_are_selected = |world: &World| world.nodes.values().filter(|node| is_selected(node)).count() == 2;
    while !two_are_selected(&world) {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    class(&mut world, "class-a");
    // The deployment settles before any machine proceeds.
    while world.act(&Actor::Deployment) {}
    world.settle();
    world.assert_settled("class-a");
}
