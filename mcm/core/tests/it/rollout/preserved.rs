//! Preserved machines where sets and deployments choose: updates in place, and cluster-autoscaler.

use jiff::ToSpan;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, Preservation, PreservationEntry, PreservationStage, PreservedBy, keys};
use mcm_core::deployment::{Settings, decide};
use mcm_core::steps::Act;
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::{
    add_full_set, add_machine, add_set, decide_all, decide_once, edit_set, in_place, label_node, labelled, size,
    world_of,
};
use super::sequences::{deployment, rolling};
use super::world::World;

/// The machine is preserved in its phase.
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

#[test]
fn an_update_in_place_replaces_failed_machines_that_are_kept_when_none_but_they_are_left() {
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
    assert_eq!((after.len(), world.made), (4, 6), "{}", world.tail());
    let updated = &world.machines[&before[2]].status;
    assert!(updated.is_preserved(), "it keeps its expiry");
}

/// How often the next plan tells that a preserved machine stays.
fn events(world: &World) -> usize {
    let plan = decide(&world.deployment_view().unwrap(), Settings::default(), world.now);
    let told = |act: &Act| matches!(act, Act::RecordEvent { reason, .. } if *reason == "PreservedMachineStays");
    plan.steps.iter().filter(|step| told(&step.act)).count()
}

#[test]
fn a_preserved_machine_that_the_autoscaler_names_stays_and_an_event_says_so() {
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
    assert_eq!(events(&world), 0, "it is told once");
    world.edit_machine(&before[0], |machine| {
        machine.status.current_status.preserve_expiry_time = None;
        machine.status.preservation = None;
    });
    world.settle();
    assert_eq!(
        names(&world),
        after,
        "its replica went with another one: {}",
        world.tail()
    );
}

#[test]
fn that_a_failed_machine_stays_which_the_autoscaler_names_is_told_as_well() {
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

/// Three machines of class a, and one of class b that failed and is kept while the rollout was paused.
fn kept_in_a_pause() -> World {
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
fn a_rollout_goes_on_beside_a_machine_of_the_new_template_that_failed_in_a_pause_and_is_kept() {
    let mut world = kept_in_a_pause();
    world.edit("on", |one| one.spec.paused = false);
    world.settle();
    let of_b = |world: &World| {
        let mut machines = world.machines.values();
        machines.all(|machine| machine.spec.class.name == "class-b")
    };
    assert!(of_b(&world) && world.machines.len() == 3, "{}", world.tail());
}

#[test]
fn a_rollback_goes_on_beside_a_failed_machine_of_its_template_that_is_kept() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    preserve(&mut world, &before[0], PreservedBy::Auto);
    world.enter(&before[0], Phase::Failed);
    let uid = world.machines[&before[0]].metadata.uid.clone().unwrap();
    world.edit("it is counted", |one| {
        one.status.preservations.push(PreservationEntry {
            uid: uid.clone(),
            name: before[0].clone(),
            by: PreservedBy::Auto,
            ..PreservationEntry::default()
        });
    });
    let is = |world: &World, class: &str| {
        let mut machines = world.machines.values();
        machines.all(|machine| machine.spec.class.name == class)
    };
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned();
    });
    while world.machines.len() < 4 || is(&world, "class-a") {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    world.edit("class a again", |one| {
        one.spec.template.spec.class.name = "class-a".to_owned();
    });
    world.settle();
    assert!(is(&world, "class-a") && world.machines.len() == 3, "{}", world.tail());
    assert!(
        names(&world).contains(&before[0]),
        "it stays to its end: {}",
        world.tail()
    );
}

#[test]
fn a_rollout_goes_on_beside_failed_machines_that_are_kept_and_takes_them_last() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let before = names(&world);
    preserve(&mut world, &before[0], PreservedBy::Auto);
    world.enter(&before[0], Phase::Failed);
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned();
    });
    let others_are_there = |world: &World| before[1..].iter().any(|name| world.machines.contains_key(name));
    for _ in 0..200 {
        for actor in world.actors() {
            world.act(&actor);
        }
        let kept = world.machines.contains_key(&before[0]);
        assert!(kept || !others_are_there(&world), "it goes last: {}", world.tail());
    }
    assert!(
        before.iter().all(|name| !world.machines.contains_key(name)),
        "{}",
        world.tail()
    );
    assert_eq!(world.machines.len(), 3, "{}", world.tail());
}

/// An old set: one of its machines failed and was kept automatically, two serve and people keep them. The failed one goes
/// before them, and then no longer excuses that a machine is missing.
fn an_automatic_one_beside_two_of_people(strategy: Value) -> World {
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
fn a_rollout_that_takes_a_failed_machine_first_takes_no_other_with_it() {
    let mut world = an_automatic_one_beside_two_of_people(rolling(0, 1));
    add_set(&mut world, 2, "class-a", 0);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms1"), 2, "{}", world.tail());
    // The set has not deleted it yet.
    decide_all(&mut world);
    assert_eq!(size(&world, "ms1"), 2, "{}", world.tail());
}

#[test]
fn a_rollout_takes_what_is_spare_beside_a_failed_machine_that_goes_first() {
    let mut world = an_automatic_one_beside_two_of_people(rolling(0, 2));
    add_set(&mut world, 2, "class-a", 0);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms1"), 1, "{}", world.tail());
    let mut world = an_automatic_one_beside_two_of_people(rolling(1, 0));
    add_full_set(&mut world, 2, "class-a", 1, "n");
    decide_once(&mut world);
    assert_eq!(
        size(&world, "ms1"),
        2,
        "three are enough, and there are three: {}",
        world.tail()
    );
}

/// The set `ms1` of an older template: `o-0` and `o-1` failed and are kept.
fn add_one_that_serves_beside_two_kept(world: &mut World) {
    add_full_set(world, 1, "class-x", 3, "o");
    for name in ["o-0", "o-1"] {
        preserve(world, name, PreservedBy::Machine);
        world.enter(name, Phase::Failed);
    }
}

/// The sets' sizes were for so many machines at most.
fn were_limited_to(world: &mut World, most: &str) {
    for set in ["ms1", "ms2"] {
        edit_set(world, set, |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::MAX_REPLICAS_ANNOTATION.to_owned(), most.to_owned());
        });
    }
}

#[test]
fn scaled_in_a_rollout_the_one_that_serves_stays_beside_failed_machines_that_are_kept() {
    let mut world = world_of(4, rolling(2, 0));
    add_one_that_serves_beside_two_kept(&mut world);
    let newest = add_set(&mut world, 2, "class-a", 3);
    for name in ["n-0", "n-1"] {
        add_machine(&mut world, &newest, name, Phase::Pending);
    }
    world.edit("fewer", |one| one.spec.replicas = 3);
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (3, 2), "{}", world.tail());
}

#[test]
fn scaled_down_by_many_the_one_that_serves_stays_though_kept_ones_would_stay_longer() {
    let mut world = world_of(10, rolling(2, 0));
    add_one_that_serves_beside_two_kept(&mut world);
    let newest = add_set(&mut world, 2, "class-a", 9);
    for machine in 0..2 {
        add_machine(&mut world, &newest, &format!("n-{machine}"), Phase::Pending);
    }
    were_limited_to(&mut world, "12");
    world.edit("fewer", |one| one.spec.replicas = 3);
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (3, 2), "{}", world.tail());
}

#[test]
fn no_place_is_made_beyond_the_limit_for_what_failed_and_is_kept() {
    let mut world = world_of(5, rolling(1, 0));
    world.edit("paused", |one| one.spec.paused = true);
    add_one_that_serves_beside_two_kept(&mut world);
    add_full_set(&mut world, 2, "class-a", 3, "n");
    world.edit("fewer", |one| one.spec.replicas = 4);
    decide_all(&mut world);
    assert!(size(&world, "ms1") + size(&world, "ms2") <= 5, "{}", world.tail());
}

/// With two machines in each set: those of the old one are kept, and in some cases those of the other one automatically.
#[rstest]
#[case::fewer(rolling(1, 0), true, Phase::Running, false, 2, (2, 1))]
#[case::fewer_recreated(json!({ "type": "Recreate" }), true, Phase::Running, false, 2, (2, 0))]
#[case::fewer_in_place(in_place("Auto", 1, 0), true, Phase::Running, false, 3, (2, 1))]
#[case::as_few_as_they_are(rolling(0, 1), true, Phase::Running, false, 1, (1, 0))]
#[case::failed_ones(rolling(1, 0), true, Phase::Failed, false, 2, (2, 1))]
#[case::nothing(rolling(1, 0), true, Phase::Running, false, 0, (0, 0))]
#[case::asked_for_beside_automatic_ones(rolling(1, 0), true, Phase::Running, true, 2, (2, 1))]
#[case::an_update_in_place_is_under_way(in_place("Auto", 1, 0), false, Phase::Running, false, 2, (2, 0))]
#[case::an_update_in_place_does_not_spare_what_failed(in_place("Auto", 0, 1), false, Phase::Failed, false, 2, (0, 2))]
fn scaled_down_kept_machines_go_last_whichever_set_they_are_of(
    #[case] strategy: Value,
    #[case] paused: bool,
    #[case] phase: Phase,
    #[case] others_are_kept: bool,
    #[case] replicas: i32,
    #[case] left: (i32, i32),
) {
    let mut world = world_of(4, strategy);
    add_full_set(&mut world, 1, "class-x", 2, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    were_limited_to(&mut world, "4");
    for name in ["o-0", "o-1"] {
        preserve(&mut world, name, PreservedBy::Machine);
        world.enter(name, phase.clone());
    }
    for name in ["n-0", "n-1"].into_iter().filter(|_| others_are_kept) {
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

/// Between two sets whose machines are kept, one that failed stands first, for which nothing that serves may go.
#[test]
fn scaled_down_in_a_pause_what_serves_and_is_kept_stays_though_what_failed_may_not() {
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
fn a_rollback_that_goes_on_gives_no_place_to_kept_machines_of_the_set_that_goes() {
    let mut world = world_of(4, rolling(1, 0));
    add_full_set(&mut world, 1, "class-a", 3, "n");
    add_full_set(&mut world, 2, "class-x", 2, "o");
    were_limited_to(&mut world, "5");
    for name in ["o-0", "o-1"] {
        preserve(&mut world, name, PreservedBy::Machine);
        world.enter(name, Phase::Running);
    }
    world.edit("fewer", |one| one.spec.replicas = 2);
    decide_once(&mut world);
    assert!(size(&world, "ms1") >= 2, "{}", world.tail());
}

#[test]
fn an_update_by_hand_replaces_failed_machines_that_are_kept_when_none_but_they_are_left() {
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
fn an_update_in_place_goes_on_beside_one_that_was_chosen_and_failed_and_is_kept() {
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
