//! Preserved machines in decisions about sets and deployments: rollouts, in-place updates, scaling and
//! cluster-autoscaler.

use jiff::ToSpan;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, Preservation, PreservationEntry, PreservationStage, PreservedBy, keys};
use mcm_core::deployment::{Settings, decide};
use mcm_core::steps::OwnerAction;
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::{
    add_full_set, add_machine, add_set, decide_all, decide_once, edit_set, in_place, label_node, labelled, size,
    world_of,
};
use super::sequences::{deployment, rolling};
use super::world::{Actor, World};

/// Marks the machine as preserved, without a change of its phase.
fn preserve(world: &mut World, name: &str, by: PreservedBy) {
    let ends = Time(world.now + 72.hours());
    if by == PreservedBy::Node {
        world.edit_node(name, |node| {
            let annotations = node.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::PRESERVE_ANNOTATION.to_owned(), "now".to_owned());
        });
    }
    world.edit_machine(name, |machine| {
        machine.status.current_status.preserve_expiry_time = Some(ends.clone());
        machine.status.preservation = Some(Preservation {
            by: by.clone(),
            stage: PreservationStage::Preserved,
            ..Preservation::default()
        });
    });
}

fn names(world: &World) -> Vec<String> {
    world.machines.keys().cloned().collect()
}

/// The reason of the condition `PreservationSuspended` after a decision about the deployment.
fn suspended(world: &mut World) -> Option<String> {
    for _ in 0..3 {
        world.act(&Actor::Deployment);
    }
    let conditions = &world.deployment.as_ref().unwrap().status.conditions;
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == "PreservationSuspended");
    found.map(|condition| condition.reason.clone())
}

#[rstest]
#[case::automatic(1, Some("RolloutInProgress"))]
#[case::on_request_only(0, None)]
fn a_rollout_that_suspends_preservation_has_a_condition(#[case] maximum: i32, #[case] begins: Option<&str>) {
    let mut one = deployment(2, rolling(1, 0));
    one.spec.auto_preserve_failed_max = Some(maximum);
    one.spec.progress_deadline_seconds = Some(600);
    let mut world = World::new(one);
    world.settle();
    assert_eq!(suspended(&mut world), None);
    world.broken.insert("class-b".to_owned());
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    assert_eq!(suspended(&mut world).as_deref(), begins);
    world.edit("pause", |one| one.spec.paused = true);
    assert_eq!(suspended(&mut world), None, "a paused deployment preserves");
    world.edit("resume", |one| one.spec.paused = false);
    assert_eq!(suspended(&mut world).as_deref(), begins);
    world.now += 700.seconds();
    assert_eq!(suspended(&mut world).as_deref(), Some("RolloutTimedOut"));
    world.edit("class a", |one| {
        one.spec.template.spec.class.name = "class-a".to_owned()
    });
    world.settle();
    assert_eq!(suspended(&mut world), None, "the rollout back is complete");
}

#[test]
fn an_in_place_update_replaces_preserved_failed_machines_last() {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "orchestrationType": "Auto", "maxSurge": 0, "maxUnavailable": 1 },
    });
    let mut world = World::new(deployment(4, strategy));
    world.settle();
    let before = names(&world);
    for name in &before[..2] {
        preserve(&mut world, name, PreservedBy::Auto);
        world.enter(name, Phase::Failed);
    }
    preserve(&mut world, &before[2], PreservedBy::Node);
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned();
    });
    world.settle();
    let after = names(&world);
    assert!(before[2..].iter().all(|name| after.contains(name)), "{}", world.tail());
    assert!(!before[..2].iter().any(|name| after.contains(name)), "{}", world.tail());
    assert_eq!((after.len(), world.created_machines), (4, 6), "{}", world.tail());
    let updated = &world.machines[&before[2]].status;
    assert!(updated.is_preserved(), "the machine keeps its expiry");
}

/// The number of `PreservedMachineStays` events in the next plan.
fn events(world: &World) -> usize {
    let plan = decide(&world.deployment_view().unwrap(), Settings::default(), world.now);
    let matching = |action: &OwnerAction| matches!(action, OwnerAction::RecordEvent { reason, .. } if *reason == "PreservedMachineStays");
    plan.steps.iter().filter(|step| matching(&step.action)).count()
}

#[test]
fn a_preserved_machine_chosen_by_the_autoscaler_stays_and_an_event_is_recorded() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    preserve(&mut world, &before[0], PreservedBy::Node);
    let time = world.now.to_string();
    world.edit("the autoscaler chooses", |one| {
        let annotations = one.metadata.annotations.get_or_insert_default();
        let list = format!("{}~{time}", before[0]);
        annotations.insert(keys::TRIGGER_DELETION_ANNOTATION.to_owned(), list);
        annotations.insert(keys::LAST_SCALE_ANNOTATION.to_owned(), time.clone());
        one.spec.replicas = 2;
    });
    assert_eq!(events(&world), 1);
    world.settle();
    let after = names(&world);
    assert!(after.contains(&before[0]) && after.len() == 2, "{}", world.tail());
    assert_eq!(events(&world), 0, "the event is recorded once");
    world.edit_machine(&before[0], |machine| {
        machine.status.current_status.preserve_expiry_time = None;
        machine.status.preservation = None;
    });
    world.settle();
    assert_eq!(
        names(&world),
        after,
        "another machine was deleted for its replica: {}",
        world.tail()
    );
}

#[test]
fn an_event_is_recorded_for_a_preserved_failed_machine_chosen_by_the_autoscaler() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    preserve(&mut world, &before[0], PreservedBy::Node);
    world.enter(&before[0], Phase::Failed);
    let time = world.now.to_string();
    world.edit("the autoscaler chooses", |one| {
        let annotations = one.metadata.annotations.get_or_insert_default();
        annotations.insert(
            keys::TRIGGER_DELETION_ANNOTATION.to_owned(),
            format!("{}~{time}", before[0]),
        );
        annotations.insert(keys::LAST_SCALE_ANNOTATION.to_owned(), time.clone());
        one.spec.replicas = 2;
    });
    assert_eq!(events(&world), 1);
}

/// Three machines of class a, and one of class b that failed during a pause of the rollout and is preserved.
fn preserved_during_a_pause() -> World {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned();
    });
    let newest = |world: &World| names(world).into_iter().find(|name| !before.contains(name));
    while newest(&world).is_none() {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    world.edit("pause", |one| one.spec.paused = true);
    let name = newest(&world).unwrap();
    preserve(&mut world, &name, PreservedBy::Auto);
    world.enter(&name, Phase::Failed);
    world
}

#[test]
fn a_rollout_completes_with_a_preserved_machine_that_failed_during_a_pause() {
    let mut world = preserved_during_a_pause();
    world.edit("resume", |one| one.spec.paused = false);
    world.settle();
    let is_complete = |world: &World| {
        let mut machines = world.machines.values();
        machines.all(|machine| machine.spec.class.name == "class-b")
    };
    assert!(is_complete(&world) && world.machines.len() == 3, "{}", world.tail());
}

#[test]
fn a_rollback_completes_with_a_preserved_failed_machine_of_its_template() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    preserve(&mut world, &before[0], PreservedBy::Auto);
    world.enter(&before[0], Phase::Failed);
    let uid = world.machines[&before[0]].metadata.uid.clone().unwrap();
    world.edit("add an entry", |one| {
        one.status.preservations.push(PreservationEntry {
            uid: uid.clone(),
            name: before[0].clone(),
            by: PreservedBy::Auto,
            ..PreservationEntry::default()
        });
    });
    let all_have = |world: &World, class: &str| {
        let mut machines = world.machines.values();
        machines.all(|machine| machine.spec.class.name == class)
    };
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned();
    });
    while world.machines.len() < 4 || all_have(&world, "class-a") {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    world.edit("class a again", |one| {
        one.spec.template.spec.class.name = "class-a".to_owned();
    });
    world.settle();
    assert!(
        all_have(&world, "class-a") && world.machines.len() == 3,
        "{}",
        world.tail()
    );
    assert!(
        names(&world).contains(&before[0]),
        "the preserved machine stays: {}",
        world.tail()
    );
}

#[test]
fn a_rollout_replaces_preserved_failed_machines_last() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    preserve(&mut world, &before[0], PreservedBy::Auto);
    world.enter(&before[0], Phase::Failed);
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned();
    });
    let others_exist = |world: &World| before[1..].iter().any(|name| world.machines.contains_key(name));
    for _ in 0..200 {
        for actor in world.actors() {
            world.act(&actor);
        }
        let exists = world.machines.contains_key(&before[0]);
        assert!(
            exists || !others_exist(&world),
            "the preserved machine is replaced last: {}",
            world.tail()
        );
    }
    assert!(
        before.iter().all(|name| !world.machines.contains_key(name)),
        "{}",
        world.tail()
    );
    assert_eq!(world.machines.len(), 3, "{}", world.tail());
}

/// An old set with an automatically preserved failed machine and two Running machines that users preserve. The failed
/// machine is deleted first, and then no longer lowers the required availability.
fn one_automatic_and_two_requested(strategy: Value) -> World {
    let mut world = world_of(3, strategy);
    add_full_set(&mut world, 1, "class-x", 3, "o");
    for name in ["o-1", "o-2"] {
        preserve(&mut world, name, PreservedBy::Node);
    }
    preserve(&mut world, "o-0", PreservedBy::Auto);
    world.enter("o-0", Phase::Failed);
    world
}

#[test]
fn a_rollout_that_removes_a_failed_machine_first_removes_no_other_machine() {
    let mut world = one_automatic_and_two_requested(rolling(0, 1));
    add_set(&mut world, 2, "class-a", 0);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms1"), 2, "{}", world.tail());
    // The set has not deleted the machine yet.
    decide_all(&mut world);
    assert_eq!(size(&world, "ms1"), 2, "{}", world.tail());
}

#[test]
fn a_rollout_removes_spare_machines_in_addition_to_a_failed_machine() {
    let mut world = one_automatic_and_two_requested(rolling(0, 2));
    add_set(&mut world, 2, "class-a", 0);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms1"), 1, "{}", world.tail());
    let mut world = one_automatic_and_two_requested(rolling(1, 0));
    add_full_set(&mut world, 2, "class-a", 1, "n");
    decide_once(&mut world);
    assert_eq!(
        size(&world, "ms1"),
        2,
        "three machines are available and required: {}",
        world.tail()
    );
}

/// Adds the set `ms1` of an older template, in which `o-0` and `o-1` failed and are preserved.
fn add_one_running_and_two_preserved(world: &mut World) {
    add_full_set(world, 1, "class-x", 3, "o");
    for name in ["o-0", "o-1"] {
        preserve(world, name, PreservedBy::Machine);
        world.enter(name, Phase::Failed);
    }
}

/// Records the maximum replicas for which both sets were sized.
fn record_max_replicas(world: &mut World, most: &str) {
    for set in ["ms1", "ms2"] {
        edit_set(world, set, |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::MAX_REPLICAS_ANNOTATION.to_owned(), most.to_owned());
        });
    }
}

#[test]
fn scaling_during_a_rollout_keeps_the_available_machine_besides_preserved_failed_machines() {
    let mut world = world_of(4, rolling(2, 0));
    add_one_running_and_two_preserved(&mut world);
    let newest = add_set(&mut world, 2, "class-a", 3);
    for name in ["n-0", "n-1"] {
        add_machine(&mut world, &newest, name, Phase::Pending);
    }
    world.edit("fewer", |one| one.spec.replicas = 3);
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (3, 2), "{}", world.tail());
}

#[test]
fn a_large_scale_down_keeps_the_available_machine_although_preserved_machines_rank_later() {
    let mut world = world_of(10, rolling(2, 0));
    add_one_running_and_two_preserved(&mut world);
    let newest = add_set(&mut world, 2, "class-a", 9);
    for machine in 0..2 {
        add_machine(&mut world, &newest, &format!("n-{machine}"), Phase::Pending);
    }
    record_max_replicas(&mut world, "12");
    world.edit("fewer", |one| one.spec.replicas = 3);
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (3, 2), "{}", world.tail());
}

#[test]
fn preserved_failed_machines_do_not_raise_the_size_limit() {
    let mut world = world_of(5, rolling(1, 0));
    world.edit("paused", |one| one.spec.paused = true);
    add_one_running_and_two_preserved(&mut world);
    add_full_set(&mut world, 2, "class-a", 3, "n");
    world.edit("fewer", |one| one.spec.replicas = 4);
    decide_all(&mut world);
    assert!(size(&world, "ms1") + size(&world, "ms2") <= 5, "{}", world.tail());
}

/// Two machines in each set: those of the old set are preserved, and in some cases those of the newest set
/// automatically.
#[rstest]
#[case::fewer(rolling(1, 0), true, Phase::Running, false, 2, (2, 1))]
#[case::fewer_with_recreate(json!({ "type": "Recreate" }), true, Phase::Running, false, 2, (2, 0))]
#[case::fewer_in_place(in_place("Auto", 1, 0), true, Phase::Running, false, 3, (2, 1))]
#[case::fewer_than_preserved(rolling(0, 1), true, Phase::Running, false, 1, (1, 0))]
#[case::failed(rolling(1, 0), true, Phase::Failed, false, 2, (2, 1))]
#[case::to_zero(rolling(1, 0), true, Phase::Running, false, 0, (0, 0))]
#[case::requested_and_automatic(rolling(1, 0), true, Phase::Running, true, 2, (2, 1))]
#[case::in_place_update_in_progress(in_place("Auto", 1, 0), false, Phase::Running, false, 2, (2, 0))]
#[case::in_place_update_with_failed_machines(in_place("Auto", 0, 1), false, Phase::Failed, false, 2, (0, 2))]
fn a_scale_down_removes_preserved_machines_last_across_sets(
    #[case] strategy: Value,
    #[case] paused: bool,
    #[case] phase: Phase,
    #[case] others_are_preserved: bool,
    #[case] replicas: i32,
    #[case] left: (i32, i32),
) {
    let mut world = world_of(4, strategy);
    add_full_set(&mut world, 1, "class-x", 2, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    record_max_replicas(&mut world, "4");
    for name in ["o-0", "o-1"] {
        preserve(&mut world, name, PreservedBy::Machine);
        world.enter(name, phase.clone());
    }
    for name in ["n-0", "n-1"].into_iter().filter(|_| others_are_preserved) {
        preserve(&mut world, name, PreservedBy::Auto);
        world.enter(name, Phase::Running);
    }
    world.edit("fewer", |one| {
        one.spec.paused = paused;
        one.spec.replicas = replicas;
    });
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), left, "{}", world.tail());
}

/// Of two sets with preserved machines, the first has a failed one; no available machine may be removed in its place.
#[test]
fn a_scale_down_during_a_pause_keeps_the_preserved_available_machine() {
    let mut world = world_of(3, rolling(0, 1));
    add_full_set(&mut world, 1, "class-x", 1, "failed");
    add_full_set(&mut world, 2, "class-y", 1, "kept");
    add_full_set(&mut world, 3, "class-a", 1, "n");
    for (name, phase) in [("failed-0", Phase::Failed), ("kept-0", Phase::Running)] {
        preserve(&mut world, name, PreservedBy::Machine);
        world.enter(name, phase);
    }
    world.edit("fewer", |one| {
        one.spec.paused = true;
        one.spec.replicas = 1;
    });
    decide_all(&mut world);
    assert_eq!(size(&world, "ms3"), 0, "{}", world.tail());
}

#[test]
fn a_rollback_reserves_no_replicas_for_preserved_machines_of_the_old_set() {
    let mut world = world_of(4, rolling(1, 0));
    add_full_set(&mut world, 1, "class-a", 3, "n");
    add_full_set(&mut world, 2, "class-x", 2, "o");
    record_max_replicas(&mut world, "5");
    for name in ["o-0", "o-1"] {
        preserve(&mut world, name, PreservedBy::Machine);
        world.enter(name, Phase::Running);
    }
    world.edit("fewer", |one| one.spec.replicas = 2);
    decide_once(&mut world);
    assert!(size(&world, "ms1") >= 2, "{}", world.tail());
}

#[test]
fn a_manual_update_replaces_preserved_failed_machines_last() {
    let mut world = world_of(3, in_place("Manual", 0, 1));
    add_full_set(&mut world, 1, "class-x", 1, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    preserve(&mut world, "o-0", PreservedBy::Machine);
    world.enter("o-0", Phase::Failed);
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (0, 2), "{}", world.tail());
    world.machines.remove("o-0");
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (0, 3), "{}", world.tail());
}

#[test]
fn an_in_place_update_continues_with_a_selected_machine_that_failed_and_is_preserved() {
    let mut world = world_of(3, in_place("Auto", 1, 0));
    add_full_set(&mut world, 1, "class-x", 2, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    label_node(&mut world, "o-0", keys::SELECTED_FOR_UPDATE_LABEL, "true");
    preserve(&mut world, "o-0", PreservedBy::Machine);
    world.enter("o-0", Phase::Failed);
    decide_all(&mut world);
    assert_eq!(
        labelled(&world, keys::SELECTED_FOR_UPDATE_LABEL),
        ["o-0", "o-1"],
        "{}",
        world.tail()
    );
}
