//! Machines that a health check wants replaced, in a rollout.

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, keys};
use rstest::rstest;

use super::objects::{add_full_set, decide_all, size, world_of};
use super::sequences::rolling;
use super::world::World;
use crate::fixtures::start;

/// A request of the replacement, with a reason of `OwnerRemediated`.
fn request(world: &mut World, machine: &str, reason: &str) {
    world.edit_machine(machine, |machine| {
        machine.status.conditions = [keys::HEALTH_CHECK_SUCCEEDED, keys::OWNER_REMEDIATED]
            .map(|type_| NodeCondition {
                type_: type_.to_owned(),
                status: "False".to_owned(),
                reason: Some(reason.to_owned()),
                ..NodeCondition::default()
            })
            .into();
    });
}

/// Four machines are Running, two of each template, and one may be unavailable. `o-0` would be deleted before `o-1`.
#[rstest]
#[case::none(None, false, (1, 2))]
#[case::a_new_one(Some("n-0"), false, (2, 2))]
#[case::an_old_one(Some("o-0"), false, (1, 2))]
#[case::an_old_one_that_is_not_the_next(Some("o-1"), false, (1, 2))]
#[case::a_new_one_that_is_preserved(Some("n-0"), true, (1, 2))]
fn a_rollout_does_not_count_them_as_available(
    #[case] requested: Option<&str>,
    #[case] preserved: bool,
    #[case] expected: (i32, i32),
) {
    let mut world = world_of(4, rolling(0, 1));
    add_full_set(&mut world, 1, "class-x", 2, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    if let Some(machine) = requested {
        request(&mut world, machine, "WaitingForRemediation");
        world.edit_machine(machine, |machine| {
            machine.status.current_status.preserve_expiry_time = preserved.then(|| Time(start()));
        });
    }
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), expected, "{}", world.tail());
}

/// Four machines are Running, two of each template, and one may be unavailable: the rollout continues.
#[rstest]
#[case::left_to_the_rollout("o-1", "CannotBeRemediated", None, (1, 2))]
#[case::excluded_by_a_user("n-0", "RemediationDeferred", Some(keys::SKIP_REMEDIATION_ANNOTATION), (1, 2))]
fn a_request_that_deletes_nothing_does_not_stop_a_rollout(
    #[case] requested: &str,
    #[case] reason: &str,
    #[case] annotation: Option<&str>,
    #[case] expected: (i32, i32),
) {
    let mut world = world_of(4, rolling(0, 1));
    add_full_set(&mut world, 1, "class-x", 2, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    request(&mut world, requested, reason);
    world.edit_machine(requested, |machine| {
        let annotations = machine.metadata.annotations.get_or_insert_default();
        annotations.extend(annotation.map(|key| (key.to_owned(), String::new())));
    });
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), expected, "{}", world.tail());
}

/// The replacement of the new machine waits until the old one is created or gone: at most one of them is replaced at a time.
#[test]
fn a_rollout_removes_a_machine_that_was_not_created_although_a_new_one_is_requested() {
    let mut world = world_of(3, rolling(0, 1));
    add_full_set(&mut world, 1, "class-x", 1, "o");
    add_full_set(&mut world, 2, "class-a", 2, "n");
    world.edit_machine("o-0", |machine| {
        machine.status.current_status.phase = Some(Phase::CrashLoopBackOff);
    });
    request(&mut world, "n-0", "RemediationDeferred");
    decide_all(&mut world);
    assert_eq!(size(&world, "ms1"), 0, "{}", world.tail());
}

/// One machine may be deleted, and each old set has one.
#[rstest]
#[case::in_the_older_set("a-0", (0, 1))]
#[case::in_the_newer_set("b-0", (1, 0))]
fn a_requested_machine_goes_before_healthy_ones_of_other_old_sets(
    #[case] requested: &str,
    #[case] expected: (i32, i32),
) {
    let mut world = world_of(2, rolling(1, 0));
    add_full_set(&mut world, 1, "class-x", 1, "a");
    add_full_set(&mut world, 2, "class-y", 1, "b");
    add_full_set(&mut world, 3, "class-a", 1, "n");
    request(&mut world, requested, "CannotBeRemediated");
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), expected, "{}", world.tail());
}
