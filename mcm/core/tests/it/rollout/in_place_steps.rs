//! The single steps of an in-place update: candidates, selection, moves to the newest set, and the resulting sizes.
//! The deployment has three replicas, in sets `ms1` (old) and `ms2` (newest).

use mcm_api::{Phase, keys};
use rstest::rstest;

use super::objects::{
    add_full_set, add_joined, add_machine, add_set, decide_all, decide_once, edit_set, finish_update, in_place,
    label_node, labelled, size, taints, world_of,
};
use super::world::World;

/// An old set and the newest set with these numbers of Running machines.
fn updating(unavailable: i32, old: i32, new: i32) -> World {
    let mut world = world_of(3, in_place("Auto", 0, unavailable));
    add_full_set(&mut world, 1, "class-x", old, "old");
    add_full_set(&mut world, 2, "class-a", new, "new");
    world
}

fn sizes(world: &World) -> (i32, i32) {
    (size(world, "ms1"), size(world, "ms2"))
}

fn owner(world: &World, machine: &str) -> String {
    let references = world.machines[machine].metadata.owner_references.as_ref().unwrap();
    assert_eq!(references.len(), 1, "one owner");
    references[0].name.clone()
}

fn has_result(world: &World, machine: &str) -> bool {
    let labels = world.machines[machine].metadata.labels.as_ref().unwrap();
    labels.contains_key(keys::UPDATE_RESULT_LABEL)
}

/// Moves the machine to the newest set without the change of the sets' sizes, as after a crash.
fn move_to_newest(world: &mut World, machine: &str) {
    finish_update(world, machine);
    label_node(world, machine, keys::CANDIDATE_FOR_UPDATE_LABEL, "true");
    let owner = world.sets["ms2"].metadata.clone();
    world.edit_node(machine, |node| {
        node.spec.get_or_insert_default().unschedulable = Some(true)
    });
    world.edit_machine(machine, |machine| {
        let labels = machine.metadata.labels.get_or_insert_default();
        labels.insert(keys::TEMPLATE_HASH_LABEL.to_owned(), "2".to_owned());
        labels.insert(keys::UPDATE_RESULT_LABEL.to_owned(), keys::UPDATE_SUCCESSFUL.to_owned());
        let reference = &mut machine.metadata.owner_references.as_mut().unwrap()[0];
        reference.name = owner.name.clone().unwrap();
        reference.uid = owner.uid.clone().unwrap();
    });
}

#[test]
fn sizes_do_not_change_without_a_moved_machine() {
    let mut world = updating(1, 2, 1);
    decide_all(&mut world);
    assert_eq!(sizes(&world), (2, 1));
}

#[test]
fn the_newest_set_grows_for_a_moved_machine_before_its_node_is_uncordoned() {
    let mut world = updating(1, 1, 2);
    move_to_newest(&mut world, "old-0");
    edit_set(&mut world, "ms1", |set| set.spec.replicas = 0);
    decide_once(&mut world);
    assert_eq!(sizes(&world), (0, 3));
    assert!(
        has_result(&world, "old-0"),
        "the label protects the machine until the set has its new size"
    );
    decide_once(&mut world);
    assert!(!has_result(&world, "old-0"));
    let node = &world.nodes["old-0"];
    assert_eq!(node.spec.as_ref().unwrap().unschedulable, None);
    for key in [
        keys::CANDIDATE_FOR_UPDATE_LABEL,
        keys::SELECTED_FOR_UPDATE_LABEL,
        keys::UPDATE_RESULT_LABEL,
    ] {
        assert_eq!(labelled(&world, key), Vec::<String>::new(), "{key}");
    }
    let keys_of_taints: Vec<String> = taints(&world, "old-0").into_iter().map(|taint| taint.key).collect();
    assert_eq!(keys_of_taints, [keys::CRITICAL_COMPONENTS_TAINT]);
}

#[rstest]
#[case::fewer_machines(2, 1, 1)]
#[case::equal(2, 2, 2)]
fn an_old_sets_size_follows_its_machines(#[case] old: i32, #[case] machines: i32, #[case] expected: i32) {
    let mut world = world_of(3, in_place("Auto", 0, 1));
    add_full_set(&mut world, 1, "class-x", machines, "old");
    edit_set(&mut world, "ms1", |set| set.spec.replicas = old);
    add_full_set(&mut world, 2, "class-a", 3 - old, "new");
    decide_once(&mut world);
    assert_eq!(size(&world, "ms1"), expected);
}

#[rstest]
#[case::complete(0, 3, (0, 3))]
#[case::surplus(0, 4, (0, 3))]
#[case::no_old_machine_is_left(0, 1, (0, 3))]
#[case::too_few_in_total(1, 1, (1, 2))]
#[case::enough_in_total(2, 1, (2, 1))]
fn the_newest_set_grows_by_the_missing_replicas(#[case] old: i32, #[case] new: i32, #[case] expected: (i32, i32)) {
    let mut world = updating(1, old, new);
    decide_once(&mut world);
    assert_eq!(sizes(&world), expected, "{}", world.tail());
}

/// The progress of the update of `old-0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Update {
    Done,
    NoResultOnTheNode,
    FailedOnTheNode,
    NoCondition,
    StillUpdating,
    NoNode,
}

#[rstest]
#[case::done(Update::Done, true)]
#[case::no_result_on_the_node(Update::NoResultOnTheNode, false)]
#[case::failed_on_the_node(Update::FailedOnTheNode, false)]
#[case::condition_not_copied_yet(Update::NoCondition, false)]
#[case::still_in_phase_updating(Update::StillUpdating, false)]
#[case::without_a_node(Update::NoNode, false)]
fn an_updated_machine_moves_to_the_newest_set(#[case] update: Update, #[case] moves: bool) {
    let mut world = updating(1, 2, 1);
    finish_update(&mut world, "old-0");
    let phase = Phase::InPlaceUpdating;
    match update {
        Update::Done => {}
        Update::NoResultOnTheNode => world.edit_node("old-0", |node| {
            node.metadata.labels.as_mut().unwrap().remove(keys::UPDATE_RESULT_LABEL);
        }),
        Update::FailedOnTheNode => label_node(&mut world, "old-0", keys::UPDATE_RESULT_LABEL, "failed"),
        Update::NoCondition => world.edit_machine("old-0", |machine| machine.status.conditions.clear()),
        Update::StillUpdating => {
            world.edit_machine("old-0", |machine| {
                machine.status.current_status.phase = Some(phase.clone())
            });
        }
        Update::NoNode => drop(world.nodes.remove("old-0")),
    }
    decide_once(&mut world);
    assert_eq!(owner(&world, "old-0"), if moves { "ms2" } else { "ms1" });
    assert_eq!(has_result(&world, "old-0"), moves);
    assert_eq!(sizes(&world), if moves { (1, 2) } else { (2, 1) });
    assert_eq!(owner(&world, "old-1"), "ms1", "the other machine does not move");
    if moves {
        let labels = world.machines["old-0"].metadata.labels.as_ref().unwrap();
        assert_eq!(labels[keys::TEMPLATE_HASH_LABEL], "2");
    }
}

#[test]
fn nodes_of_old_sets_are_candidates_and_their_machines_are_not_labelled() {
    let mut world = updating(1, 2, 1);
    add_machine(&mut world, "ms1", "old-joins", Phase::Pending);
    edit_set(&mut world, "ms1", |set| set.spec.replicas = 3);
    add_set(&mut world, 3, "class-y", 0);
    let labels = world.machines["old-0"].metadata.labels.clone();
    decide_once(&mut world);
    assert_eq!(labelled(&world, keys::CANDIDATE_FOR_UPDATE_LABEL), ["old-0", "old-1"]);
    assert_eq!(world.machines["old-0"].metadata.labels, labels);
    let scale_up_disabled = |set: &str| {
        let labels = world.sets[set].metadata.labels.as_ref().unwrap();
        labels.get(keys::SCALE_UP_DISABLED_LABEL).map(String::as_str)
    };
    assert_eq!(["ms1", "ms2", "ms3"].map(scale_up_disabled), [Some("true"), None, None]);
}

/// The selected nodes after one decision.
fn decide_and_list_selected(world: &mut World) -> Vec<String> {
    decide_once(world);
    labelled(world, keys::SELECTED_FOR_UPDATE_LABEL)
}

fn select(world: &mut World, nodes: &[&str]) {
    for node in nodes {
        label_node(world, node, keys::CANDIDATE_FOR_UPDATE_LABEL, "true");
        label_node(world, node, keys::SELECTED_FOR_UPDATE_LABEL, "true");
    }
}

#[rstest]
#[case::two_candidates(updating(1, 2, 1), &["old-0"], (2, 1))]
#[case::complete_newest_set(updating(1, 2, 3), &[], (0, 3))]
#[case::no_old_replicas(updating(1, 0, 2), &[], (0, 3))]
fn one_machine_of_the_old_sets_is_selected_at_a_time(
    #[case] mut world: World,
    #[case] expected: &[&str],
    #[case] after: (i32, i32),
) {
    assert_eq!(decide_and_list_selected(&mut world), expected);
    assert_eq!(sizes(&world), after);
}

#[test]
fn machines_without_a_node_are_not_selected() {
    let mut world = world_of(3, in_place("Auto", 0, 1));
    add_set(&mut world, 1, "class-x", 2);
    for name in ["old-0", "old-1"] {
        add_machine(&mut world, "ms1", name, Phase::Running);
    }
    add_full_set(&mut world, 2, "class-a", 1, "new");
    assert_eq!(decide_and_list_selected(&mut world), Vec::<String>::new());
}

#[test]
fn no_machine_is_selected_while_one_of_the_newest_set_is_unavailable() {
    let mut world = updating(1, 2, 0);
    edit_set(&mut world, "ms2", |set| set.spec.replicas = 1);
    add_joined(&mut world, "ms2", "new-0", Phase::Pending);
    assert_eq!(decide_and_list_selected(&mut world), Vec::<String>::new());
    world.edit_machine("new-0", |machine| {
        machine.status.current_status.phase = Some(Phase::Running)
    });
    assert_eq!(decide_and_list_selected(&mut world), ["old-0"]);
}

/// Two of three machines may be unavailable; `undergoing` are already being updated.
#[rstest]
#[case::none(3, &[], &["old-0", "old-1"])]
#[case::one_of_three(3, &["old-1"], &["old-0", "old-1"])]
#[case::two(3, &["old-0", "old-2"], &["old-0", "old-2"])]
#[case::no_machines(0, &[], &[])]
fn machines_being_updated_count_as_unavailable(
    #[case] old: i32,
    #[case] undergoing: &[&str],
    #[case] expected: &[&str],
) {
    let mut world = updating(2, old, 0);
    select(&mut world, undergoing);
    assert_eq!(decide_and_list_selected(&mut world), expected);
}

#[test]
fn a_failed_update_counts_as_unavailable() {
    let mut world = updating(1, 2, 1);
    select(&mut world, &["old-0"]);
    label_node(&mut world, "old-0", keys::UPDATE_RESULT_LABEL, "failed");
    assert_eq!(decide_and_list_selected(&mut world), ["old-0"]);
    assert_eq!(sizes(&world), (2, 1));
}

/// The maximum of unavailable machines, the selected nodes before, nodes labelled for another machine, and the selected
/// nodes after.
#[rstest]
#[case::skips_the_selected(2, &["old-0"], &[], &["old-0", "old-1"])]
#[case::all_of_them(3, &[], &[], &["old-0", "old-1", "old-2"])]
#[case::as_many_as_allowed(1, &[], &[], &["old-0"])]
#[case::only_candidates(1, &[], &["old-0"], &["old-1"])]
#[case::all_are_selected(3, &["old-0", "old-1", "old-2"], &[], &["old-0", "old-1", "old-2"])]
#[case::none_is_a_candidate(3, &[], &["old-0", "old-1", "old-2"], &[])]
fn max_unavailable_limits_the_selected_nodes(
    #[case] unavailable: i32,
    #[case] before: &[&str],
    #[case] foreign: &[&str],
    #[case] after: &[&str],
) {
    let mut world = updating(unavailable, 3, 0);
    select(&mut world, before);
    for node in foreign {
        label_node(&mut world, node, keys::MACHINE_NAME_LABEL, "another");
    }
    assert_eq!(decide_and_list_selected(&mut world), after);
}

#[rstest]
#[case::no_selection(&[])]
#[case::selection_of_a_user(&["old-1"])]
fn with_manual_orchestration_a_user_selects_nodes(#[case] selected: &[&str]) {
    let mut world = world_of(3, in_place("Manual", 0, 1));
    add_full_set(&mut world, 1, "class-x", 3, "old");
    add_set(&mut world, 2, "class-a", 0);
    select(&mut world, selected);
    decide_all(&mut world);
    assert_eq!(labelled(&world, keys::SELECTED_FOR_UPDATE_LABEL), selected);
    assert_eq!(labelled(&world, keys::CANDIDATE_FOR_UPDATE_LABEL).len(), 3);
    assert_eq!(sizes(&world), (3, 0));
}
