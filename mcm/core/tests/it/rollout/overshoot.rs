//! Tables of the brake: when sets freeze and thaw, alone and with their deployment.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Machine, MachineDeployment, MachineSet, keys};
use mcm_core::overshoot::{Reason, Settings, Subject, View, decide};
use rstest::rstest;

use super::sequences::{deployment, rolling};
use super::world::World;
use crate::fixtures::start;

/// A settled deployment of that size.
fn world(replicas: i32) -> World {
    let mut world = World::new(deployment(replicas, rolling(1, 0)));
    world.lenient = true;
    world.settle();
    world
}

fn view(world: &World) -> View {
    View {
        sets: world.sets.values().cloned().collect(),
        deployments: world.deployment.iter().cloned().map(Arc::new).collect(),
        machines: world.machines.values().cloned().collect(),
        may_freeze: true,
    }
}

/// Looks until there is nothing to do; answers the reasons.
fn look(world: &mut World) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for decision in 0..10 {
        let view = View {
            may_freeze: decision == 0,
            ..view(world)
        };
        let decisions = decide(&view, Settings::default(), world.now);
        if decisions.is_empty() {
            return reasons;
        }
        for (subject, plan) in decisions {
            reasons.extend(plan.steps.first().map(|step| step.reason.clone()));
            match subject {
                Subject::Set(set) => world.carry_out(plan, "brake", &set.metadata),
                Subject::Deployment(deployment) => world.carry_out(plan, "brake", &deployment.metadata),
            }
        }
    }
    panic!("it does not come to rest: {reasons:?}");
}

fn set(world: &World) -> MachineSet {
    MachineSet::clone(world.sets.values().next().unwrap())
}

fn frozen(world: &World) -> [bool; 4] {
    let (set, deployment): (_, MachineDeployment) = (set(world), world.deployment.clone().unwrap());
    let label = |labels: &Option<std::collections::BTreeMap<String, String>>| {
        labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(keys::FREEZE_LABEL))
    };
    [
        label(&set.metadata.labels),
        set.status.conditions.iter().any(|one| one.type_ == "Frozen"),
        label(&deployment.metadata.labels),
        deployment.status.conditions.iter().any(|one| one.type_ == "Frozen"),
    ]
}

#[rstest]
#[case::below_the_limit(4, false)]
#[case::at_the_limit(3, true)]
fn a_set_with_too_many_machines_is_frozen_with_its_deployment(#[case] replicas: i32, #[case] expected: bool) {
    // Six machines; the limit is replicas, a surge of one, and two.
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = replicas);
    look(&mut world);
    assert_eq!(frozen(&world), [expected; 4]);
}

#[rstest]
#[case::below_the_limit(3, false)]
#[case::at_the_limit(2, true)]
fn a_set_without_a_deployment_may_have_twice_its_number(#[case] replicas: i32, #[case] expected: bool) {
    let mut world = world(6);
    let mut alone = set(&world);
    alone.spec.replicas = replicas;
    alone.metadata.owner_references = None;
    world.sets.insert(alone.metadata.name.clone().unwrap(), Arc::new(alone));
    world.deployment = None;
    let decisions = decide(&view(&world), Settings::default(), world.now);
    let freezes = |reason: &Reason| *reason == Reason::TooMany { count: 6, limit: 6 };
    let found = decisions
        .iter()
        .any(|(_, plan)| plan.steps.iter().any(|step| freezes(&step.reason)));
    assert_eq!(found, expected);
}

#[rstest]
#[case::at_once(false)]
#[case::where_another_completes_it(true)]
fn set_and_deployment_say_how_many_machines_are_too_many(#[case] half: bool) {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 3);
    look(&mut world);
    if half {
        let mut half = set(&world);
        half.status.conditions.clear();
        world.sets.insert(half.metadata.name.clone().unwrap(), Arc::new(half));
        let deployment = world.deployment.as_mut().unwrap();
        deployment.status.conditions.retain(|one| one.type_ != "Frozen");
        look(&mut world);
    }
    let (set, deployment) = (set(&world), world.deployment.clone().unwrap());
    let name = set.metadata.name.unwrap();
    let text = format!("The number of machines backing MachineSet: {name} is 6 >= 6 which is the Max-ScaleUp-Limit");
    let of_set = set.status.conditions.iter().find(|one| one.type_ == "Frozen").unwrap();
    let of_deployment = deployment
        .status
        .conditions
        .iter()
        .find(|one| one.type_ == "Frozen")
        .unwrap();
    assert_eq!(
        (of_set.reason.as_str(), of_set.message.as_str()),
        ("OverShootingReplicaCount", text.as_str())
    );
    assert_eq!(
        (&of_deployment.reason, &of_deployment.message),
        (&of_set.reason, &of_set.message)
    );
}

#[test]
fn a_frozen_set_is_thawed_once_when_the_machines_are_gone() {
    let mut world = world(6);
    world.drain = 100;
    world.edit("fewer", |one| one.spec.replicas = 2);
    for _ in 0..4 {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    look(&mut world);
    assert_eq!(frozen(&world), [true; 4]);
    assert_eq!(look(&mut world), vec![], "it is frozen once");
    world.settle();
    look(&mut world);
    assert_eq!(frozen(&world), [false; 4]);
    world.settle();
    assert_eq!(world.machines.len(), 2);
}

#[test]
fn a_surplus_that_is_not_growing_is_thawed_so_that_it_can_go() {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 2);
    look(&mut world);
    world.settle();
    assert_eq!(world.machines.len(), 6, "frozen means frozen");
    world.now = world.now.checked_add(SignedDuration::from_secs(61)).unwrap();
    assert!(matches!(look(&mut world)[0], Reason::Quiet { count: 6 }));
    world.settle();
    assert_eq!(world.machines.len(), 2);
}

#[rstest]
#[case::only_the_label(true)]
#[case::only_the_condition(false)]
fn half_a_freeze_is_completed_and_half_a_thaw_as_well(#[case] label: bool) {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 3);
    look(&mut world);
    let mut half = set(&world);
    if label {
        half.status.conditions.clear();
    } else {
        half.metadata.labels.as_mut().unwrap().remove(keys::FREEZE_LABEL);
    }
    let name = half.metadata.name.clone().unwrap();
    world.sets.insert(name, Arc::new(half));
    look(&mut world);
    assert_eq!(frozen(&world), [label; 4]);
    world.edit("more", |one| one.spec.replicas = 6);
    look(&mut world);
    assert_eq!(frozen(&world), [false; 4]);
}

#[test]
fn a_person_ends_a_freeze() {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 2);
    look(&mut world);
    world.edit("unfreeze", |one| {
        let annotations = one.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::UNFREEZE_ANNOTATION.to_owned(), "True".to_owned());
    });
    let reasons = look(&mut world);
    assert_eq!(reasons[0], Reason::Asked);
    assert_eq!(frozen(&world), [false; 4], "{reasons:?}");
    let asks = |one: &MachineDeployment| {
        one.metadata
            .annotations
            .clone()
            .unwrap_or_default()
            .contains_key(keys::UNFREEZE_ANNOTATION)
    };
    assert!(
        !asks(world.deployment.as_ref().unwrap()),
        "what was done is asked for no more"
    );
}

#[rstest]
#[case::at_the_limit(4, 59, true)]
#[case::below_it(3, 59, false)]
#[case::that_was_long_ago(4, 61, false)]
fn machines_that_a_set_let_go_of_late_count_against_its_limit(
    #[case] released: usize,
    #[case] minutes: i64,
    #[case] expected: bool,
) {
    // Six machines; the limit is seven, a surge of one, and two: ten.
    let mut world = world(6);
    let note = format!("{}~{}", set(&world).metadata.name.unwrap(), world.now);
    for number in 0..released {
        let mut machine = Machine::default();
        machine.metadata.annotations = Some([(keys::RELEASED_BY_ANNOTATION.to_owned(), note.clone())].into());
        world.machines.insert(format!("released-{number}"), Arc::new(machine));
    }
    world.edit("more", |one| one.spec.replicas = 7);
    world.now = world.now.checked_add(SignedDuration::from_mins(minutes)).unwrap();
    look(&mut world);
    assert_eq!(frozen(&world), [expected; 4]);
}

#[test]
fn a_deployment_without_a_surge_stops_nobody() {
    let mut world = world(2);
    world.edit("recreate", |one| "Recreate".clone_into(&mut one.spec.strategy.type_));
    world.edit("none", |one| one.spec.strategy.rolling_update = None);
    assert_eq!(look(&mut world), vec![]);
    assert!(world.now > Time(start()).0);
}
