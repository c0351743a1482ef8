//! The overshoot guard: when it freezes and thaws sets, with or without a deployment.

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

/// Performs the guard's decisions until there is nothing to do; returns the reasons.
fn run_guard(world: &mut World) -> Vec<Reason> {
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
                Subject::Set(set) => world.carry_out(plan, "guard", &set.metadata),
                Subject::Deployment(deployment) => world.carry_out(plan, "guard", &deployment.metadata),
            }
        }
    }
    panic!("the guard does not settle: {reasons:?}");
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
    // There are six machines; the limit is the replicas plus a surge of one plus two.
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = replicas);
    run_guard(&mut world);
    assert_eq!(frozen(&world), [expected; 4]);
}

#[rstest]
#[case::because_few_machines_are_left(false)]
#[case::because_a_user_asks(true)]
fn a_set_creates_machines_again_only_after_its_deployment_is_unfrozen(#[case] asked: bool) {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 3);
    run_guard(&mut world);
    assert_eq!(frozen(&world), [true; 4]);
    if asked {
        let metadata = &mut world.deployment.as_mut().unwrap().metadata;
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(keys::UNFREEZE_ANNOTATION.to_owned(), keys::TRUE.to_owned());
    } else {
        world.edit("more", |one| one.spec.replicas = 6);
    }
    let mut order = Vec::new();
    loop {
        let view = View {
            may_freeze: false,
            ..view(&world)
        };
        // A write that fails does not affect the others of one decision: the order must not depend on it.
        let decisions = decide(&view, Settings::default(), world.now);
        let [set, _, deployment, _] = frozen(&world);
        assert!(
            !deployment || set,
            "the set is unfrozen before its deployment: {order:?}"
        );
        let has = |wanted: fn(&Subject) -> bool| decisions.iter().any(|(subject, _)| wanted(subject));
        let is_set = |subject: &Subject| matches!(subject, Subject::Set(_));
        assert!(!(deployment && has(is_set)), "{decisions:?}");
        if decisions.is_empty() {
            break;
        }
        for (subject, plan) in decisions {
            order.push(is_set(&subject));
            match subject {
                Subject::Set(set) => world.carry_out(plan, "guard", &set.metadata),
                Subject::Deployment(deployment) => world.carry_out(plan, "guard", &deployment.metadata),
            }
        }
        assert!(order.len() < 10, "the guard does not settle: {order:?}");
    }
    assert_eq!(frozen(&world), [false; 4]);
    assert_eq!(order.first(), Some(&false));
    let annotations = world.deployment.unwrap().metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(keys::UNFREEZE_ANNOTATION));
}

#[rstest]
#[case::below_the_limit(3, false)]
#[case::at_the_limit(2, true)]
fn a_set_without_a_deployment_may_surge_by_its_replicas(#[case] replicas: i32, #[case] expected: bool) {
    let mut world = world(6);
    let mut standalone = set(&world);
    standalone.spec.replicas = replicas;
    standalone.metadata.owner_references = None;
    world
        .sets
        .insert(standalone.metadata.name.clone().unwrap(), Arc::new(standalone));
    world.deployment = None;
    let decisions = decide(&view(&world), Settings::default(), world.now);
    let freezes = |reason: &Reason| *reason == Reason::TooMany { count: 6, limit: 6 };
    let found = decisions
        .iter()
        .any(|(_, plan)| plan.steps.iter().any(|step| freezes(&step.reason)));
    assert_eq!(found, expected);
}

#[rstest]
#[case::complete(false)]
#[case::partial(true)]
fn set_and_deployment_report_the_count_and_the_limit(#[case] partial: bool) {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 3);
    run_guard(&mut world);
    if partial {
        let mut partial = set(&world);
        partial.status.conditions.clear();
        world
            .sets
            .insert(partial.metadata.name.clone().unwrap(), Arc::new(partial));
        let deployment = world.deployment.as_mut().unwrap();
        deployment.status.conditions.retain(|one| one.type_ != "Frozen");
        run_guard(&mut world);
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
fn a_frozen_set_is_thawed_after_its_surplus_is_deleted() {
    let mut world = world(6);
    world.drain = 100;
    world.edit("fewer", |one| one.spec.replicas = 2);
    for _ in 0..4 {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    run_guard(&mut world);
    assert_eq!(frozen(&world), [true; 4]);
    assert_eq!(run_guard(&mut world), vec![], "the set is frozen once");
    world.settle();
    run_guard(&mut world);
    assert_eq!(frozen(&world), [false; 4]);
    world.settle();
    assert_eq!(world.machines.len(), 2);
}

#[test]
fn a_constant_surplus_is_thawed_so_that_it_can_be_deleted() {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 2);
    run_guard(&mut world);
    world.settle();
    assert_eq!(world.machines.len(), 6, "a frozen set deletes no machines");
    world.now = world.now.checked_add(SignedDuration::from_secs(61)).unwrap();
    let reasons = run_guard(&mut world);
    assert!(reasons.contains(&Reason::Quiet { count: 6 }), "{reasons:?}");
    world.settle();
    assert_eq!(world.machines.len(), 2);
}

#[rstest]
#[case::only_the_label(true)]
#[case::only_the_condition(false)]
fn a_partial_freeze_or_thaw_is_completed(#[case] label: bool) {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 3);
    run_guard(&mut world);
    let mut partial = set(&world);
    if label {
        partial.status.conditions.clear();
    } else {
        partial.metadata.labels.as_mut().unwrap().remove(keys::FREEZE_LABEL);
    }
    let name = partial.metadata.name.clone().unwrap();
    world.sets.insert(name, Arc::new(partial));
    run_guard(&mut world);
    assert_eq!(frozen(&world), [label; 4]);
    world.edit("more", |one| one.spec.replicas = 6);
    run_guard(&mut world);
    assert_eq!(frozen(&world), [false; 4]);
}

#[test]
fn a_user_ends_a_freeze_by_annotation() {
    let mut world = world(6);
    world.edit("fewer", |one| one.spec.replicas = 2);
    run_guard(&mut world);
    world.edit("unfreeze", |one| {
        let annotations = one.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::UNFREEZE_ANNOTATION.to_owned(), "True".to_owned());
    });
    let reasons = run_guard(&mut world);
    assert!(reasons.contains(&Reason::Asked), "{reasons:?}");
    assert_eq!(frozen(&world), [false; 4], "{reasons:?}");
    let has_annotation = |one: &MachineDeployment| {
        one.metadata
            .annotations
            .clone()
            .unwrap_or_default()
            .contains_key(keys::UNFREEZE_ANNOTATION)
    };
    assert!(
        !has_annotation(world.deployment.as_ref().unwrap()),
        "the guard removes the annotation"
    );
}

#[rstest]
#[case::at_the_limit(4, 59, true)]
#[case::below_it(3, 59, false)]
#[case::released_long_ago(4, 61, false)]
fn recently_released_machines_count_against_the_limit(
    #[case] released: usize,
    #[case] minutes: i64,
    #[case] expected: bool,
) {
    // There are six machines; the limit is seven plus a surge of one plus two.
    let mut world = world(6);
    let note = format!("{}~{}", set(&world).metadata.name.unwrap(), world.now);
    for number in 0..released {
        let mut machine = Machine::default();
        machine.metadata.annotations = Some([(keys::RELEASED_BY_ANNOTATION.to_owned(), note.clone())].into());
        world.machines.insert(format!("released-{number}"), Arc::new(machine));
    }
    world.edit("more", |one| one.spec.replicas = 7);
    world.now = world.now.checked_add(SignedDuration::from_mins(minutes)).unwrap();
    run_guard(&mut world);
    assert_eq!(frozen(&world), [expected; 4]);
}

#[test]
fn a_deployment_without_a_surge_freezes_no_set() {
    let mut world = world(2);
    world.edit("recreate", |one| "Recreate".clone_into(&mut one.spec.strategy.type_));
    world.edit("none", |one| one.spec.strategy.rolling_update = None);
    assert_eq!(run_guard(&mut world), vec![]);
    assert!(world.now > Time(start()).0);
}
