//! Sizes: who is scaled when the number changes, and how large the newest set may get.

use mcm_api::{Phase, keys};
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::{
    add_full_set, add_joined, add_set, decide_once, edit_set, in_place, new_sets, plan, set_annotation, size, world_of,
};
use super::sequences::rolling;
use super::world::World;

/// Sets of these classes and sizes, all sized for five machines.
fn sized_for_five(replicas: i32, strategy: Value, sets: &[(&str, i32)]) -> World {
    let mut world = world_of(5, strategy);
    for (number, (class, size)) in (1..).zip(sets) {
        add_full_set(&mut world, number, class, *size, &format!("m{number}"));
    }
    world.edit("replicas", |one| one.spec.replicas = replicas);
    world
}

/// Size and noted number of each set after one decision.
fn scaled(world: &mut World) -> Vec<(i32, String)> {
    decide_once(world);
    let noted = |name: &String| {
        set_annotation(world, name, keys::DESIRED_REPLICAS_ANNOTATION)
            .unwrap()
            .to_owned()
    };
    world.sets.keys().map(|name| (size(world, name), noted(name))).collect()
}

#[rstest]
#[case::the_only_set(&[("class-a", 5)], 7, &[(7, "7")])]
#[case::the_newest_beside_an_empty_one(&[("class-x", 0), ("class-a", 5)], 7, &[(0, "5"), (7, "7")])]
#[case::to_nothing(&[("class-x", 0), ("class-a", 5)], 0, &[(0, "5"), (0, "0")])]
#[case::all_sets_are_empty(&[("class-x", 0), ("class-a", 0)], 3, &[(0, "5"), (3, "3")])]
#[case::in_the_midst_of_a_rollout(&[("class-x", 3), ("class-a", 2)], 7, &[(3, "7"), (4, "7")])]
#[case::from_nothing_noted(&[("class-x", 0), ("class-a", 5)], 5, &[(0, "5"), (5, "5")])]
fn a_changed_number_sizes_the_sets_that_have_machines(
    #[case] sets: &[(&str, i32)],
    #[case] replicas: i32,
    #[case] expected: &[(i32, &str)],
) {
    let mut world = sized_for_five(replicas, rolling(0, 1), sets);
    let expected: Vec<_> = expected
        .iter()
        .map(|(size, noted)| (*size, (*noted).to_owned()))
        .collect();
    assert_eq!(scaled(&mut world), expected, "{}", world.tail());
}

#[rstest]
#[case::another_number("7", true)]
#[case::the_same("5", false)]
#[case::no_number("many", false)]
fn what_a_set_without_machines_was_sized_for_does_not_matter(#[case] noted: &str, #[case] matters: bool) {
    for (number, of_an_active_set) in [(1, false), (2, true)] {
        let mut world = sized_for_five(5, rolling(0, 1), &[("class-x", 0), ("class-a", 5)]);
        edit_set(&mut world, &format!("ms{number}"), |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::DESIRED_REPLICAS_ANNOTATION.to_owned(), noted.to_owned());
        });
        let told = plan(&world).steps.iter().any(|step| step.reason.name() == "SizeNoted");
        assert_eq!(told, matters && of_an_active_set, "ms{number}");
    }
}

#[rstest]
#[case::unchanged([1, 3, 5], 7, [1, 3, 5])]
#[case::to_nothing([1, 3, 5], 0, [0, 0, 0])]
#[case::nobody_is_asked_for_more_than_it_has([0, 3, 5], 4, [0, 2, 4])]
fn a_rollout_whose_number_was_noted_wrongly_is_scaled(
    #[case] before: [i32; 3],
    #[case] replicas: i32,
    #[case] after: [i32; 3],
) {
    let mut world = world_of(replicas, rolling(2, 0));
    for (number, (class, size)) in (1..).zip(["class-x", "class-y", "class-a"].into_iter().zip(before)) {
        add_set(&mut world, number, class, size);
        edit_set(&mut world, &format!("ms{number}"), |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::DESIRED_REPLICAS_ANNOTATION.to_owned(), "6".to_owned());
            annotations.insert(keys::MAX_REPLICAS_ANNOTATION.to_owned(), "8".to_owned());
        });
    }
    decide_once(&mut world);
    let sizes: Vec<i32> = world.sets.keys().map(|name| size(&world, name)).collect();
    assert_eq!(sizes, after);
    let most = if replicas == 0 { 0 } else { replicas + 2 };
    for name in ["ms2", "ms3"] {
        let noted = |key| set_annotation(&world, name, key).map(str::to_owned);
        assert_eq!(
            noted(keys::DESIRED_REPLICAS_ANNOTATION),
            Some(replicas.to_string()),
            "{name}"
        );
        assert_eq!(noted(keys::MAX_REPLICAS_ANNOTATION), Some(most.to_string()), "{name}");
    }
}

#[test]
fn a_newest_set_that_has_all_machines_empties_the_others() {
    let mut world = sized_for_five(5, rolling(0, 1), &[("class-x", 2), ("class-a", 5)]);
    edit_set(&mut world, "ms1", |set| {
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::DESIRED_REPLICAS_ANNOTATION.to_owned(), "7".to_owned());
    });
    decide_once(&mut world);
    assert_eq!((size(&world, "ms1"), size(&world, "ms2")), (0, 5));
}

fn recreate() -> Value {
    json!({ "type": "Recreate" })
}

/// Five are wanted, and four machines of the old template are there unless the strategy took them away.
#[rstest]
#[case::rolling_surge_two_and_two_are_there(rolling(2, 0), 4, Some(2), 3)]
#[case::rolling_surge_two_and_three_are_there(rolling(2, 0), 4, Some(3), 3)]
#[case::rolling_surge_two_and_no_set(rolling(2, 0), 4, None, 3)]
#[case::rolling_never_beyond_the_number(rolling(9, 0), 4, Some(2), 5)]
#[case::rolling_too_large(rolling(2, 0), 0, Some(6), 5)]
#[case::recreate(recreate(), 0, Some(0), 5)]
#[case::recreate_while_old_ones_are_there(recreate(), 4, Some(0), 0)]
#[case::in_place_by_hand(in_place("Manual", 2, 1), 4, None, 0)]
#[case::in_place_surge_two(in_place("Auto", 2, 1), 4, None, 3)]
#[case::in_place_surge_one(in_place("Auto", 1, 1), 4, None, 2)]
fn the_size_of_the_newest_set(
    #[case] strategy: Value,
    #[case] old: i32,
    #[case] new: Option<i32>,
    #[case] expected: i32,
) {
    let mut world = world_of(5, strategy);
    add_full_set(&mut world, 1, "class-x", old, "old");
    if let Some(new) = new {
        add_full_set(&mut world, 2, "class-a", new, "new");
    }
    let made = new_sets(&plan(&world)).first().map(|set| set.spec.replicas);
    decide_once(&mut world);
    assert_eq!(
        made.unwrap_or_else(|| size(&world, "ms2")),
        expected,
        "{}",
        world.tail()
    );
}

#[test]
fn machines_that_are_ordered_take_up_the_surge() {
    let mut world = world_of(5, rolling(1, 0));
    add_full_set(&mut world, 1, "class-x", 5, "old");
    add_set(&mut world, 2, "class-a", 1);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms2"), 1, "its machine is not there yet, and counts");
    add_joined(&mut world, "ms2", "new-0", Phase::Pending);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms2"), 1);
}

/// Two sets of up to six machines each, and any number of replicas and surge up to six.
#[test]
fn whatever_the_sizes_a_changed_number_takes_no_machine_that_must_be_available() {
    for (old, new, replicas, surge) in (0..7 * 7 * 7 * 7).map(|n: i32| (n / 343, n / 49 % 7, n / 7 % 7, n % 7)) {
        let unavailable = i32::from(surge == 0);
        let sets = [("class-x", old), ("class-a", new)];
        let mut world = sized_for_five(replicas, rolling(surge, unavailable), &sets);
        decide_once(&mut world);
        let sizes: Vec<i32> = world.sets.keys().map(|name| size(&world, name)).collect();
        let kept = sizes[0].min(old) + sizes[1].min(new);
        let told = format!("{old} and {new} become {sizes:?} with {replicas} replicas and a surge of {surge}");
        assert!(kept >= (replicas - unavailable).min(old + new), "{told}");
        assert!(sizes.iter().sum::<i32>() <= (replicas + surge).max(old + new), "{told}");
    }
}
