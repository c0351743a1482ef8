//! cluster-autoscaler's list: marks on machines from the deployment's annotation, and deletions by these marks.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{MachineDeployment, Phase, keys};
use mcm_core::set;
use mcm_core::steps::{Kind, OwnerAction};
use rstest::rstest;

use super::objects::{
    add_full_set, add_machine, add_set, decide_all, decide_once, edit_set, plan, set_annotation, size, world_of,
};
use super::sequences::rolling;
use super::world::World;
use crate::fixtures::start;

const FIVE: &str = "2026-01-02T03:05:00Z";
const SIX: &str = "2026-01-02T03:06:00Z";
const SEVEN: &str = "2026-01-02T03:07:00Z";

/// Six machines: `m-0` to `m-3` are Running, `m-4` is being deleted and `m-5` failed.
fn six() -> World {
    let mut world = world_of(6, rolling(1, 0));
    add_full_set(&mut world, 1, "class-a", 6, "m");
    world.edit_machine("m-4", |machine| {
        machine.metadata.deletion_timestamp = Some(Time(start()))
    });
    world.edit_machine("m-5", |machine| {
        machine.status.current_status.phase = Some(Phase::Failed)
    });
    decide_all(&mut world);
    world
}

fn annotate(deployment: &mut MachineDeployment, key: &str, value: Option<&str>) {
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    if let Some(value) = value {
        annotations.insert(key.to_owned(), value.to_owned());
    }
}

/// The machines with priority 1, and when they were marked.
fn marks(world: &World) -> Vec<(String, String)> {
    let marked = |annotations: &BTreeMap<String, String>| {
        let chosen = annotations
            .get(keys::PRIORITY_ANNOTATION)
            .is_some_and(|priority| priority == "1");
        chosen.then(|| annotations.get(keys::MARKED_ANNOTATION).cloned().unwrap_or_default())
    };
    let machines = world.machines.iter();
    machines
        .filter_map(|(name, machine)| Some((name.clone(), marked(machine.metadata.annotations.as_ref()?)?)))
        .collect()
}

fn deployment_annotation(world: &World, key: &str) -> Option<String> {
    let annotations = world.deployment.as_ref()?.metadata.annotations.as_ref()?;
    annotations.get(key).cloned()
}

#[rstest]
#[case::both("m-0~2026-01-02T03:05:00Z,m-1~2026-01-02T03:06:00Z", Some("m-0~2026-01-02T03:05:00Z,m-1~2026-01-02T03:06:00Z"), &[("m-0", FIVE), ("m-1", SIX)])]
#[case::one_is_being_deleted("m-0~2026-01-02T03:05:00Z,m-4~2026-01-02T03:05:00Z", Some("m-0~2026-01-02T03:05:00Z"), &[("m-0", FIVE)])]
#[case::one_failed("m-5~2026-01-02T03:05:00Z,m-1~2026-01-02T03:05:00Z", Some("m-1~2026-01-02T03:05:00Z"), &[("m-1", FIVE)])]
#[case::one_does_not_exist("m-0~2026-01-02T03:05:00Z,m-9~2026-01-02T03:05:00Z", Some("m-0~2026-01-02T03:05:00Z"), &[("m-0", FIVE)])]
#[case::invalid_time("m-0~soon,m-1~2026-01-02T03:05:00Z", Some("m-1~2026-01-02T03:05:00Z"), &[("m-1", FIVE)])]
#[case::three_parts("m-0~2026-01-02T03:05:00Z~x,m-1~2026-01-02T03:05:00Z", Some("m-1~2026-01-02T03:05:00Z"), &[("m-1", FIVE)])]
#[case::none_remains("m-4~2026-01-02T03:05:00Z", None, &[])]
#[case::empty("", None, &[])]
#[case::old_format("m-0", Some("m-0~2026-01-02T03:07:00Z"), &[("m-0", SEVEN)])]
#[case::both_formats("m-0,m-1~2026-01-02T03:05:00Z", Some("m-0~2026-01-02T03:07:00Z,m-1~2026-01-02T03:05:00Z"), &[("m-0", SEVEN), ("m-1", FIVE)])]
fn the_list_is_normalized_and_its_machines_are_marked(
    #[case] list: &str,
    #[case] left: Option<&str>,
    #[case] expected: &[(&str, &str)],
) {
    let mut world = six();
    world.edit("the autoscaler chooses", |one| {
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some(list));
        annotate(one, keys::LAST_SCALE_ANNOTATION, Some(SEVEN));
    });
    decide_once(&mut world);
    assert_eq!(
        deployment_annotation(&world, keys::TRIGGER_DELETION_ANNOTATION).as_deref(),
        left
    );
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, time)| ((*name).to_owned(), (*time).to_owned()))
        .collect();
    assert_eq!(marks(&world), expected);
}

#[test]
fn a_normalized_list_with_marked_machines_changes_nothing() {
    let mut world = six();
    world.edit("the autoscaler chooses", |one| {
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some("m-0~2026-01-02T03:05:00Z"));
        annotate(one, keys::LAST_SCALE_ANNOTATION, Some(SEVEN));
    });
    let writes = |world: &World, kind: Kind| {
        let plan = plan(world);
        let patched =
            |action: &OwnerAction| matches!(action, OwnerAction::Patch { kind: written, .. } if *written == kind);
        plan.steps.iter().filter(|step| patched(&step.action)).count()
    };
    assert_eq!(
        (writes(&world, Kind::Deployment), writes(&world, Kind::Machine)),
        (0, 1),
        "only the machine is marked"
    );
    decide_all(&mut world);
    assert_eq!(plan(&world).steps, vec![]);
    assert_eq!(marks(&world), [("m-0".to_owned(), FIVE.to_owned())]);
}

#[test]
fn no_list_changes_nothing() {
    let world = six();
    assert_eq!(plan(&world).steps, vec![]);
    assert_eq!(marks(&world), []);
}

#[test]
fn a_list_in_the_old_format_without_a_scale_time_gets_the_current_time() {
    let mut world = six();
    world.edit("a list", |one| {
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some("m-0"))
    });
    decide_once(&mut world);
    let scaled = deployment_annotation(&world, keys::LAST_SCALE_ANNOTATION).unwrap();
    let now = jiff::Timestamp::from_second(world.now.as_second()).unwrap();
    assert_eq!(scaled, now.to_string());
    assert_eq!(
        deployment_annotation(&world, keys::TRIGGER_DELETION_ANNOTATION),
        Some(format!("m-0~{scaled}"))
    );
    assert_eq!(marks(&world), [("m-0".to_owned(), scaled)]);
}

#[rstest]
#[case::earlier_mark_stays(Some("1"), Some(FIVE), FIVE)]
#[case::priority_of_a_user_gets_a_mark(Some("1"), None, SIX)]
#[case::another_priority_is_replaced(Some("5"), Some(FIVE), FIVE)]
#[case::no_annotations(None, None, SIX)]
fn a_chosen_machine_keeps_its_earlier_mark(
    #[case] priority: Option<&str>,
    #[case] mark: Option<&str>,
    #[case] expected: &str,
) {
    let mut world = six();
    world.edit_machine("m-0", |machine| {
        let before = [(keys::PRIORITY_ANNOTATION, priority), (keys::MARKED_ANNOTATION, mark)];
        let given = before
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
        machine.metadata.annotations = Some(given.collect());
    });
    world.edit("the autoscaler chooses", |one| {
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some("m-0~2026-01-02T03:06:00Z"));
        annotate(one, keys::LAST_SCALE_ANNOTATION, Some(SEVEN));
    });
    decide_once(&mut world);
    assert_eq!(marks(&world), [("m-0".to_owned(), expected.to_owned())]);
}

/// Upstream annotates only the newest set; during a rollout, machines of old sets are chosen as well.
#[rstest]
#[case::newest_set("ms3", true)]
#[case::old_set_with_machines("ms2", true)]
#[case::old_set_without_machines("ms1", false)]
fn the_scale_time_is_copied_to_sets_and_the_list_is_not(#[case] set: &str, #[case] copied: bool) {
    let mut world = world_of(2, rolling(1, 0));
    add_set(&mut world, 1, "class-x", 0);
    add_full_set(&mut world, 2, "class-y", 1, "y");
    add_full_set(&mut world, 3, "class-a", 1, "a");
    world.edit("the autoscaler chooses", |one| {
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some("y-0~2026-01-02T03:05:00Z"));
        annotate(one, keys::LAST_SCALE_ANNOTATION, Some(SEVEN));
    });
    decide_once(&mut world);
    assert_eq!(
        set_annotation(&world, set, keys::LAST_SCALE_ANNOTATION),
        copied.then_some(SEVEN)
    );
    assert_eq!(set_annotation(&world, set, keys::TRIGGER_DELETION_ANNOTATION), None);
}

/// The text of the set's event for the deletion of m-1.
fn cause_of_deletion(set: i32, chosen: bool, phase: Phase) -> Option<String> {
    let mut world = world_of(2, rolling(1, 0));
    add_set(&mut world, 1, "class-a", set);
    add_machine(&mut world, "ms1", "m-0", Phase::Running);
    add_machine(&mut world, "ms1", "m-1", phase);
    edit_set(&mut world, "ms1", |set| {
        set.metadata.finalizers = Some(vec![keys::MACHINE_FINALIZER.to_owned()]);
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::LAST_SCALE_ANNOTATION.to_owned(), SIX.to_owned());
    });
    world.edit_machine("m-1", |machine| {
        let annotations = machine.metadata.annotations.get_or_insert_default();
        if chosen {
            annotations.insert(keys::PRIORITY_ANNOTATION.to_owned(), "1".to_owned());
            annotations.insert(keys::MARKED_ANNOTATION.to_owned(), FIVE.to_owned());
        }
    });
    let plan = set::decide(&world.set_view("ms1").unwrap(), world.now);
    plan.steps.iter().find_map(|step| match &step.action {
        OwnerAction::RecordEvent { message, .. } if message.contains("m-1") => Some(message.clone()),
        _ => None,
    })
}

/// The autoscaler lowers the replicas with its choice, so a chosen machine is usually also one too many.
#[rstest]
#[case::one_too_many(1, true, Phase::Running, Some("Deleted machine: m-1 (chosen by cluster-autoscaler)"))]
#[case::not_one_too_many(2, true, Phase::Running, Some("Deleted machine: m-1 (chosen by cluster-autoscaler)"))]
#[case::failed(2, false, Phase::Failed, Some("Deleted machine: m-1 (failed)"))]
#[case::nothing(2, false, Phase::Running, None)]
fn the_event_of_a_deletion_has_its_cause(
    #[case] set: i32,
    #[case] chosen: bool,
    #[case] phase: Phase,
    #[case] expected: Option<&str>,
) {
    assert_eq!(cause_of_deletion(set, chosen, phase).as_deref(), expected);
}

#[rstest]
#[case::marked_before_the_scaling("1", Some(FIVE), Some(SIX), true)]
#[case::marked_with_the_scaling("1", Some(SIX), Some(SIX), true)]
#[case::marked_after_the_scaling("1", Some(SEVEN), Some(SIX), false)]
#[case::never_scaled("1", Some(FIVE), None, false)]
#[case::invalid_scale_time("1", Some(FIVE), Some("lately"), false)]
#[case::invalid_mark("1", Some("lately"), Some(SIX), false)]
#[case::a_priority_without_a_mark("1", None, Some(SIX), false)]
#[case::a_mark_without_the_priority("3", Some(FIVE), Some(SIX), false)]
fn a_marked_machine_is_deleted_although_the_replicas_match(
    #[case] priority: &str,
    #[case] mark: Option<&str>,
    #[case] scaled: Option<&str>,
    #[case] is_deleted: bool,
) {
    let mut world = world_of(2, rolling(1, 0));
    add_set(&mut world, 1, "class-a", 2);
    for name in ["m-0", "m-1"] {
        add_machine(&mut world, "ms1", name, Phase::Running);
    }
    edit_set(&mut world, "ms1", |set| {
        set.metadata.finalizers = Some(vec![keys::MACHINE_FINALIZER.to_owned()]);
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.extend(scaled.map(|time| (keys::LAST_SCALE_ANNOTATION.to_owned(), time.to_owned())));
    });
    world.edit_machine("m-1", |machine| {
        let annotations = machine.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::PRIORITY_ANNOTATION.to_owned(), priority.to_owned());
        annotations.extend(mark.map(|time| (keys::MARKED_ANNOTATION.to_owned(), time.to_owned())));
    });
    let plan = set::decide(&world.set_view("ms1").unwrap(), world.now);
    let deleted: Vec<&str> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            OwnerAction::Delete { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, if is_deleted { vec!["m-1"] } else { vec![] });
}

/// Four machines are Running, two of each template, and the autoscaler lowers the replicas to three.
#[rstest]
#[case::of_the_newest_set_and_replaced("n-0", FIVE, 2)]
#[case::of_the_old_set_and_not_replaced("o-1", FIVE, 1)]
#[case::of_the_newest_set_for_another_time("n-0", SEVEN, 1)]
fn a_rollout_does_not_count_chosen_machines_as_available(#[case] name: &str, #[case] time: &str, #[case] old: i32) {
    let mut world = world_of(4, rolling(1, 0));
    add_full_set(&mut world, 1, "class-x", 2, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    world.edit("the autoscaler chooses", |one| {
        one.spec.replicas = 3;
        let list = format!("{name}~{time}");
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some(&list));
        annotate(one, keys::LAST_SCALE_ANNOTATION, Some(SIX));
    });
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (old, 2), "{}", world.tail());
}

#[test]
fn replicas_of_chosen_machines_are_removed_first() {
    let mut world = world_of(7, rolling(1, 0));
    world.edit("paused", |one| one.spec.paused = true);
    add_full_set(&mut world, 1, "class-x", 5, "o");
    add_full_set(&mut world, 2, "class-a", 3, "n");
    world.edit("the autoscaler chooses", |one| {
        one.spec.replicas = 4;
        let list = ["n-0", "n-1", "n-2"].map(|name| format!("{name}~{FIVE}")).join(",");
        annotate(one, keys::TRIGGER_DELETION_ANNOTATION, Some(&list));
        annotate(one, keys::LAST_SCALE_ANNOTATION, Some(SIX));
    });
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (4, 1), "{}", world.tail());
}
