//! Machines that a health check wants replaced, in a rollout.

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::keys;
use rstest::rstest;

use super::objects::{add_full_set, decide_all, size, world_of};
use super::sequences::rolling;
use super::world::World;
use crate::fixtures::start;

fn request(world: &mut World, machine: &str) {
    world.edit_machine(machine, |machine| {
        machine.status.conditions = [keys::HEALTH_CHECK_SUCCEEDED, keys::OWNER_REMEDIATED]
            .map(|type_| NodeCondition {
                type_: type_.to_owned(),
                status: "False".to_owned(),
                ..NodeCondition::default()
            })
            .into();
    });
}

/// Four machines are Running, two of each template, and one may be unavailable.
#[rstest]
#[case::none(None, false, (1, 2))]
#[case::a_new_one(Some("n-0"), false, (2, 2))]
#[case::an_old_one(Some("o-0"), false, (1, 2))]
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
        request(&mut world, machine);
        world.edit_machine(machine, |machine| {
            machine.status.current_status.preserve_expiry_time = preserved.then(|| Time(start()));
        });
    }
    decide_all(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), expected, "{}", world.tail());
}
