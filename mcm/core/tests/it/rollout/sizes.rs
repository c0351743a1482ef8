//! Sizes: which sets are scaled when the replicas change, and the size of the newest set.

use mcm_api::{Phase, keys};
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::{
    add_full_set, add_joined, add_set, decide_once, edit_set, in_place, new_sets, plan, set_annotation, size, world_of,
};
use super::sequences::rolling;
use super::world::World;

/// Sets of these classes and sizes, all sized for five replicas, and a deployment with `replicas`.
fn sized_for_five(replicas: i32, strategy: Value, sets: &[(&str, i32)]) -> World {
    let mut world = world_of(5, strategy);
    for (number, (class, size)) in (1..).zip(sets) {
        add_full_set(&mut world, number, class, *size, &format!("m{number}"));
    }
    world.edit("replicas", |one| one.spec.replicas = replicas);
    world
}

/// The size and recorded replicas of each set after one decision.
fn scaled(world: &mut World) -> Vec<(i32, String)> {
    decide_once(world);
    let recorded = |name: &String| {
        set_annotation(world, name, keys::DESIRED_REPLICAS_ANNOTATION)
            .unwrap()
            .to_owned()
    };
    world
        .sets
        .keys()
        .map(|name| (size(world, name), recorded(name)))
        .collect()
}

#[rstest]
#[case::the_only_set(&[("class-a", 5)], 7, &[(7, "7")])]
#[case::the_newest_beside_an_empty_one(&[("class-x", 0), ("class-a", 5)], 7, &[(0, "5"), (7, "7")])]
#[case::to_zero(&[("class-x", 0), ("class-a", 5)], 0, &[(0, "5"), (0, "0")])]
#[case::empty_sets(&[("class-x", 0), ("class-a", 0)], 3, &[(0, "5"), (3, "3")])]
#[case::during_a_rollout(&[("class-x", 3), ("class-a", 2)], 7, &[(3, "7"), (4, "7")])]
#[case::unchanged(&[("class-x", 0), ("class-a", 5)], 5, &[(0, "5"), (5, "5")])]
fn a_change_of_replicas_scales_the_sets_with_machines(
    #[case] sets: &[(&str, i32)],
    #[case] replicas: i32,
    #[case] expected: &[(i32, &str)],
) {
    let mut world = sized_for_five(replicas, rolling(0, 1), sets);
    let expected: Vec<_> = expected
        .iter()
        .map(|(size, recorded)| (*size, (*recorded).to_owned()))
        .collect();
    assert_eq!(scaled(&mut world), expected, "{}", world.tail());
}

#[rstest]
#[case::another_number("7", true)]
#[case::the_same("5", false)]
#[case::not_a_number("many", false)]
fn the_recorded_replicas_of_a_set_without_machines_are_ignored(#[case] recorded: &str, #[case] differs: bool) {
    for (number, of_an_active_set) in [(1, false), (2, true)] {
        let mut world = sized_for_five(5, rolling(0, 1), &[("class-x", 0), ("class-a", 5)]);
        edit_set(&mut world, &format!("ms{number}"), |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::DESIRED_REPLICAS_ANNOTATION.to_owned(), recorded.to_owned());
        });
        let resized = plan(&world).steps.iter().any(|step| step.reason.name() == "SizeNoted");
        assert_eq!(resized, differs && of_an_active_set, "ms{number}");
    }
}

#[rstest]
#[case::unchanged([1, 3, 5], 7, [1, 3, 5])]
#[case::to_zero([1, 3, 5], 0, [0, 0, 0])]
#[case::no_negative_sizes([0, 3, 5], 4, [0, 2, 4])]
fn a_rollout_with_outdated_recorded_replicas_is_scaled(
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
        let recorded = |key| set_annotation(&world, name, key).map(str::to_owned);
        assert_eq!(
            recorded(keys::DESIRED_REPLICAS_ANNOTATION),
            Some(replicas.to_string()),
            "{name}"
        );
        assert_eq!(
            recorded(keys::MAX_REPLICAS_ANNOTATION),
            Some(most.to_string()),
            "{name}"
        );
    }
}

#[test]
fn a_complete_newest_set_scales_the_others_to_zero() {
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

/// The deployment has five replicas, and `old` machines of the old template exist.
#[rstest]
#[case::rolling_surge_two_with_size_two(rolling(2, 0), 4, Some(2), 3)]
#[case::rolling_surge_two_with_size_three(rolling(2, 0), 4, Some(3), 3)]
#[case::rolling_surge_two_without_a_set(rolling(2, 0), 4, None, 3)]
#[case::rolling_never_beyond_the_replicas(rolling(9, 0), 4, Some(2), 5)]
#[case::rolling_too_large(rolling(2, 0), 0, Some(6), 5)]
#[case::recreate(recreate(), 0, Some(0), 5)]
#[case::recreate_while_old_machines_exist(recreate(), 4, Some(0), 0)]
#[case::in_place_manual(in_place("Manual", 2, 1), 4, None, 0)]
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
    let created = new_sets(&plan(&world)).first().map(|set| set.spec.replicas);
    decide_once(&mut world);
    assert_eq!(
        created.unwrap_or_else(|| size(&world, "ms2")),
        expected,
        "{}",
        world.tail()
    );
}

#[test]
fn requested_machines_count_against_the_surge() {
    let mut world = world_of(5, rolling(1, 0));
    add_full_set(&mut world, 1, "class-x", 5, "old");
    add_set(&mut world, 2, "class-a", 1);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms2"), 1, "the machine does not exist yet, and counts");
    add_joined(&mut world, "ms2", "new-0", Phase::Pending);
    decide_once(&mut world);
    assert_eq!(size(&world, "ms2"), 1);
}

/// Two sets of up to six machines each, and any number of replicas and surge up to six.
#[test]
fn a_change_of_replicas_never_removes_required_machines() {
    for (old, new, replicas, surge) in (0..7 * 7 * 7 * 7).map(|n: i32| (n / 343, n / 49 % 7, n / 7 % 7, n % 7)) {
        let unavailable = i32::from(surge == 0);
        let sets = [("class-x", old), ("class-a", new)];
        let mut world = sized_for_five(replicas, rolling(surge, unavailable), &sets);
        decide_once(&mut world);
        let sizes: Vec<i32> = world.sets.keys().map(|name| size(&world, name)).collect();
        let remaining = sizes[0].min(old) + sizes[1].min(new);
        let case = format!("{old} and {new} become {sizes:?} with {replicas} replicas and a surge of {surge}");
        assert!(remaining >= (replicas - unavailable).min(old + new), "{case}");
        assert!(sizes.iter().sum::<i32>() <= (replicas + surge).max(old + new), "{case}");
    }
}
