//! Each step of an update in place on its own: who is a candidate, who is chosen, who changes hands, and which size follows.
//! Three machines are wanted, in sets `ms1` (old) and `ms2` (newest).

use mcm_api::{Phase, keys};
use rstest::rstest;

use super::objects::{
    add_full_set, add_joined, add_machine, add_set, decide_all, decide_once, edit_set, finish_update, in_place,
    label_node, labelled, size, taints, world_of,
};
use super::world::World;

/// Old sets and the newest with so many Running machines each.
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
    assert_eq!(references.len(), 1, "one set");
    references[0].name.clone()
}

fn has_result(world: &World, machine: &str) -> bool {
    let labels = world.machines[machine].metadata.labels.as_ref().unwrap();
    labels.contains_key(keys::UPDATE_RESULT_LABEL)
}

/// The machine changed its set, and whoever did that died before the sets' sizes followed.
fn hand_over(world: &mut World, machine: &str) {
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
fn sizes_follow_nobody_where_nobody_was_handed_over() {
    let mut world = updating(1, 2, 1);
    decide_all(&mut world);
    assert_eq!(sizes(&world), (2, 1));
}

#[test]
fn the_newest_sets_size_follows_a_machine_that_was_handed_over_before_its_node_is_used_again() {
    let mut world = updating(1, 1, 2);
    hand_over(&mut world, "old-0");
    edit_set(&mut world, "ms1", |set| set.spec.replicas = 0);
    decide_once(&mut world);
    assert_eq!(sizes(&world), (0, 3));
    assert!(has_result(&world, "old-0"), "it is protected until the set counts it");
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
#[case::fewer_machines_than_its_size(2, 1, 1)]
#[case::as_many(2, 2, 2)]
fn an_old_sets_size_follows_its_machines(#[case] old: i32, #[case] machines: i32, #[case] expected: i32) {
    let mut world = world_of(3, in_place("Auto", 0, 1));
    add_full_set(&mut world, 1, "class-x", machines, "old");
    edit_set(&mut world, "ms1", |set| set.spec.replicas = old);
    add_full_set(&mut world, 2, "class-a", 3 - old, "new");
    decide_once(&mut world);
    assert_eq!(size(&world, "ms1"), expected);
}

#[rstest]
#[case::it_has_all(0, 3, (0, 3))]
#[case::it_has_too_many(0, 4, (0, 3))]
#[case::no_old_machine_is_left(0, 1, (0, 3))]
#[case::all_together_are_too_few(1, 1, (1, 2))]
#[case::all_together_are_enough(2, 1, (2, 1))]
fn the_newest_set_is_filled_up(#[case] old: i32, #[case] new: i32, #[case] expected: (i32, i32)) {
    let mut world = updating(1, old, new);
    decide_once(&mut world);
    assert_eq!(sizes(&world), expected, "{}", world.tail());
}

/// How far the update of `old-0` got.
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
#[case::it_is_done(Update::Done, true)]
#[case::its_node_has_no_result(Update::NoResultOnTheNode, false)]
#[case::its_node_failed(Update::FailedOnTheNode, false)]
#[case::the_condition_is_not_copied_yet(Update::NoCondition, false)]
#[case::its_phase_says_that_it_goes_on(Update::StillUpdating, false)]
#[case::its_node_is_gone(Update::NoNode, false)]
fn an_updated_machine_changes_its_set(#[case] update: Update, #[case] changes: bool) {
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
    assert_eq!(owner(&world, "old-0"), if changes { "ms2" } else { "ms1" });
    assert_eq!(has_result(&world, "old-0"), changes);
    assert_eq!(sizes(&world), if changes { (1, 2) } else { (2, 1) });
    assert_eq!(owner(&world, "old-1"), "ms1", "the other stays");
    if changes {
        let labels = world.machines["old-0"].metadata.labels.as_ref().unwrap();
        assert_eq!(labels[keys::TEMPLATE_HASH_LABEL], "2");
    }
}

#[test]
fn nodes_behind_old_sets_are_candidates_and_their_machines_are_not_labelled() {
    let mut world = updating(1, 2, 1);
    add_machine(&mut world, "ms1", "old-joins", Phase::Pending);
    edit_set(&mut world, "ms1", |set| set.spec.replicas = 3);
    add_set(&mut world, 3, "class-y", 0);
    let labels = world.machines["old-0"].metadata.labels.clone();
    decide_once(&mut world);
    assert_eq!(labelled(&world, keys::CANDIDATE_FOR_UPDATE_LABEL), ["old-0", "old-1"]);
    assert_eq!(world.machines["old-0"].metadata.labels, labels);
    let held = |set: &str| {
        let labels = world.sets[set].metadata.labels.as_ref().unwrap();
        labels.get(keys::SCALE_UP_DISABLED_LABEL).map(String::as_str)
    };
    assert_eq!([held("ms1"), held("ms2"), held("ms3")], [Some("true"), None, None]);
}

/// Which nodes are selected after one decision; the old machines are those whose names begin so.
fn selected(world: &mut World) -> Vec<String> {
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
#[case::the_newest_has_all(updating(1, 2, 3), &[], (0, 3))]
#[case::no_old_replicas(updating(1, 0, 2), &[], (0, 3))]
fn old_sets_give_one_machine_at_a_time(#[case] mut world: World, #[case] chosen: &[&str], #[case] after: (i32, i32)) {
    assert_eq!(selected(&mut world), chosen);
    assert_eq!(sizes(&world), after);
}

#[test]
fn nobody_is_selected_where_no_machine_has_a_node() {
    let mut world = world_of(3, in_place("Auto", 0, 1));
    add_set(&mut world, 1, "class-x", 2);
    for name in ["old-0", "old-1"] {
        add_machine(&mut world, "ms1", name, Phase::Running);
    }
    add_full_set(&mut world, 2, "class-a", 1, "new");
    assert_eq!(selected(&mut world), Vec::<String>::new());
}

#[test]
fn nobody_is_selected_while_a_machine_of_the_newest_set_is_not_available() {
    let mut world = updating(1, 2, 0);
    edit_set(&mut world, "ms2", |set| set.spec.replicas = 1);
    add_joined(&mut world, "ms2", "new-0", Phase::Pending);
    assert_eq!(selected(&mut world), Vec::<String>::new());
    world.edit_machine("new-0", |machine| {
        machine.status.current_status.phase = Some(Phase::Running)
    });
    assert_eq!(selected(&mut world), ["old-0"]);
}

/// Two of the three may be missing; `undergoing` are under way already.
#[rstest]
#[case::none(3, &[], &["old-0", "old-1"])]
#[case::one_of_three(3, &["old-1"], &["old-0", "old-1"])]
#[case::two(3, &["old-0", "old-2"], &["old-0", "old-2"])]
#[case::no_machines(0, &[], &[])]
fn machines_that_are_under_way_count_as_missing(
    #[case] old: i32,
    #[case] undergoing: &[&str],
    #[case] expected: &[&str],
) {
    let mut world = updating(2, old, 0);
    select(&mut world, undergoing);
    assert_eq!(selected(&mut world), expected);
}

#[test]
fn a_failed_update_counts_as_one_that_is_under_way() {
    let mut world = updating(1, 2, 1);
    select(&mut world, &["old-0"]);
    label_node(&mut world, "old-0", keys::UPDATE_RESULT_LABEL, "failed");
    assert_eq!(selected(&mut world), ["old-0"]);
    assert_eq!(sizes(&world), (2, 1));
}

/// How many may be missing, who is selected before, whose node is another machine's, and who is selected after.
#[rstest]
#[case::skips_the_selected(2, &["old-0"], &[], &["old-0", "old-1"])]
#[case::all_of_them(3, &[], &[], &["old-0", "old-1", "old-2"])]
#[case::as_many_as_asked(1, &[], &[], &["old-0"])]
#[case::only_candidates(1, &[], &["old-0"], &["old-1"])]
#[case::all_are_selected(3, &["old-0", "old-1", "old-2"], &[], &["old-0", "old-1", "old-2"])]
#[case::none_is_a_candidate(3, &[], &["old-0", "old-1", "old-2"], &[])]
fn who_is_drained_next(
    #[case] unavailable: i32,
    #[case] before: &[&str],
    #[case] foreign: &[&str],
    #[case] after: &[&str],
) {
    let mut world = updating(unavailable, 3, 0);
    select(&mut world, before);
    for node in foreign {
        label_node(&mut world, node, keys::MACHINE_NAME_LABEL, "somebody");
    }
    assert_eq!(selected(&mut world), after);
}

#[rstest]
#[case::nobody_selects(&[])]
#[case::a_person_selects(&["old-1"])]
fn by_hand_a_person_selects(#[case] chosen: &[&str]) {
    let mut world = world_of(3, in_place("Manual", 0, 1));
    add_full_set(&mut world, 1, "class-x", 3, "old");
    add_set(&mut world, 2, "class-a", 0);
    select(&mut world, chosen);
    decide_all(&mut world);
    assert_eq!(labelled(&world, keys::SELECTED_FOR_UPDATE_LABEL), chosen);
    assert_eq!(labelled(&world, keys::CANDIDATE_FOR_UPDATE_LABEL).len(), 3);
    assert_eq!(sizes(&world), (3, 0));
}
