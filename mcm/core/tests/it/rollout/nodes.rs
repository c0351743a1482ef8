//! What a rollout writes to nodes: the PreferNoSchedule taint, and the annotations that disable cluster-autoscaler's
//! scale-down.

use std::collections::BTreeMap;

use jiff::ToSpan;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, keys};
use mcm_core::deployment::{Settings, decide};
use mcm_core::steps::{Kind, OwnerAction};
use mcm_core::template::template_hash;
use rstest::rstest;

use super::objects::{
    add_full_set, add_machine, add_set, decide_all, decide_once, edit_set, node_annotations, plan, set_annotation,
    taints, world_of,
};
use super::sequences::rolling;
use super::world::World;

const AWAY: &str = keys::SCALE_DOWN_DISABLED_ANNOTATION;
const BY_US: &str = keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION;

/// Two machines of an old set, `old-0` and `old-1`, and one of the newest, `new-0`.
fn rollout() -> World {
    let mut world = world_of(3, rolling(1, 0));
    add_full_set(&mut world, 1, "class-x", 2, "old");
    add_full_set(&mut world, 2, "class-a", 1, "new");
    world
}

/// Three machines of the only set, `new-0` to `new-2`.
fn complete() -> World {
    let mut world = world_of(3, rolling(1, 0));
    add_full_set(&mut world, 1, "class-a", 3, "new");
    world
}

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

fn ours() -> Taint {
    taint(keys::PREFER_NO_SCHEDULE, "True", "PreferNoSchedule")
}

fn others() -> Taint {
    taint("dedicated", "team", "NoSchedule")
}

/// A taint with the same key and another effect.
fn stricter() -> Taint {
    taint(keys::PREFER_NO_SCHEDULE, "True", "NoSchedule")
}

fn with_taints(world: &mut World, node: &str, taints: &[Taint]) {
    world.edit_node(node, |node| {
        node.spec.get_or_insert_default().taints = Some(taints.to_vec())
    });
}

fn writes(world: &World, node: &str) -> usize {
    let plan = plan(world);
    let written =
        |action: &OwnerAction| matches!(action, OwnerAction::Patch { kind: Kind::Node, name, .. } if name == node);
    plan.steps.iter().filter(|step| written(&step.action)).count()
}

#[rstest]
#[case::added(vec![], vec![ours()])]
#[case::added_beside_others(vec![others()], vec![others(), ours()])]
#[case::added_beside_another_effect(vec![stricter()], vec![stricter(), ours()])]
#[case::updated(vec![taint(keys::PREFER_NO_SCHEDULE, "old", "PreferNoSchedule"), others()], vec![others(), ours()])]
#[case::duplicate(vec![ours(), others()], vec![ours(), others()])]
fn nodes_of_an_old_set_are_tainted(#[case] before: Vec<Taint>, #[case] after: Vec<Taint>) {
    let mut world = rollout();
    with_taints(&mut world, "old-0", &before);
    decide_once(&mut world);
    assert_eq!(taints(&world, "old-0"), after);
    assert_eq!(
        taints(&world, "new-0"),
        vec![],
        "nodes of the newest set are not tainted"
    );
    assert_eq!(set_annotation(&world, "ms1", keys::PREFER_NO_SCHEDULE), Some("True"));
    assert_eq!(set_annotation(&world, "ms2", keys::PREFER_NO_SCHEDULE), None);
    assert_eq!(writes(&world, "old-0"), 0, "the node is written once");
}

#[rstest]
#[case::removed(vec![ours()], vec![])]
#[case::removed_from_several(vec![others(), ours()], vec![others()])]
#[case::another_effect_stays(vec![stricter(), ours()], vec![stricter()])]
#[case::nothing_to_remove(vec![others()], vec![others()])]
fn nodes_of_a_set_that_is_the_newest_again_are_untainted(#[case] before: Vec<Taint>, #[case] after: Vec<Taint>) {
    let mut world = complete();
    with_taints(&mut world, "new-0", &before);
    edit_set(&mut world, "ms1", |set| {
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::PREFER_NO_SCHEDULE.to_owned(), "True".to_owned());
    });
    decide_once(&mut world);
    assert_eq!(taints(&world, "new-0"), after);
    assert_eq!(set_annotation(&world, "ms1", keys::PREFER_NO_SCHEDULE), None);
}

fn map(annotations: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

fn with_annotations(world: &mut World, node: &str, annotations: &[(&str, &str)]) {
    world.edit_node(node, |node| node.metadata.annotations = Some(map(annotations)));
}

/// A user's value stays; upstream overwrites it.
#[rstest]
#[case::none(&[], &[(AWAY, "true"), (BY_US, "true")])]
#[case::next_to_others(&[("a", "1")], &[("a", "1"), (AWAY, "true"), (BY_US, "true")])]
#[case::already_there(&[(AWAY, "true"), (BY_US, "true")], &[(AWAY, "true"), (BY_US, "true")])]
#[case::another_value_of_a_user(&[(AWAY, "false")], &[(AWAY, "false")])]
#[case::same_value_of_a_user(&[(AWAY, "true")], &[(AWAY, "true")])]
fn nodes_of_all_sets_are_protected_from_scale_down(#[case] before: &[(&str, &str)], #[case] after: &[(&str, &str)]) {
    let mut world = rollout();
    for node in ["old-0", "new-0"] {
        with_annotations(&mut world, node, before);
    }
    decide_once(&mut world);
    for node in ["old-0", "new-0"] {
        assert_eq!(node_annotations(&world, node), map(after), "{node}");
        assert_eq!(writes(&world, node), 0, "{node} is written once");
    }
}

#[test]
fn nodes_are_not_annotated_if_the_setting_is_disabled() {
    let world = rollout();
    let settings = Settings {
        keep_autoscaler_away: false,
        ..Settings::default()
    };
    let plan = decide(&world.deployment_view().unwrap(), settings, world.now);
    let nodes: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            OwnerAction::Patch {
                kind: Kind::Node,
                name,
                patch,
            } => Some((name.as_str(), patch["metadata"]["annotations"].is_null())),
            _ => None,
        })
        .collect();
    assert_eq!(
        nodes,
        [("old-0", true), ("old-1", true)],
        "the nodes are tainted and not annotated"
    );
}

#[rstest]
#[case::ours(&[("a", "1"), (AWAY, "true"), (BY_US, "true")], &[("a", "1")])]
#[case::ours_with_other_values(&[(AWAY, "no"), (BY_US, "x")], &[])]
#[case::of_a_user(&[(AWAY, "true")], &[(AWAY, "true")])]
#[case::nothing_to_remove(&[("a", "1")], &[("a", "1")])]
fn scale_down_is_enabled_again_after_the_rollout(#[case] before: &[(&str, &str)], #[case] after: &[(&str, &str)]) {
    let mut world = complete();
    with_annotations(&mut world, "new-1", before);
    decide_once(&mut world);
    assert_eq!(node_annotations(&world, "new-1"), map(after));
}

/// This status determines whether failing machines are replaced or preserved.
#[test]
fn the_end_of_a_rollout_is_written_although_node_writes_may_fail() {
    let mut world = complete();
    decide_all(&mut world);
    world.deployment.as_mut().unwrap().status.rolled_out = "previous".to_owned();
    with_annotations(&mut world, "new-1", &[(AWAY, "true"), (BY_US, "true")]);
    let plan = plan(&world);
    let optional = plan.steps.iter().filter(|step| step.action.may_fail()).count();
    assert_eq!(optional + 1, plan.steps.len(), "{plan:?}");
    let Some(OwnerAction::WriteStatus { patch, .. }) = plan.steps.last().map(|step| &step.action) else {
        panic!("{plan:?}");
    };
    assert!(patch["status"]["rolledOut"].is_string(), "{patch}");
}

/// The deployment of another controller does not record which template was rolled out last; the template of its newest
/// set is used, even if the current template has no set yet.
#[rstest]
#[case::during_the_rollout("class-a", "class-a")]
#[case::before_the_set_exists("class-b", "class-x")]
fn without_a_record_the_rolled_out_template_is_that_of_the_newest_set(#[case] wanted: &str, #[case] newest: &str) {
    let mut world = world_of(2, rolling(1, 0));
    add_full_set(&mut world, 1, "class-x", 2, "old");
    let newest = if newest == "class-a" {
        add_set(&mut world, 2, "class-a", 0)
    } else {
        "ms1".to_owned()
    };
    world.edit("class, paused", |one| {
        one.spec.template.spec.class.name = wanted.to_owned();
        one.spec.paused = true;
    });
    decide_all(&mut world);
    let recorded = world.deployment.as_ref().unwrap().status.rolled_out.clone();
    let of = &world.sets[&newest].spec.template;
    assert_eq!(recorded, template_hash(of), "{}", world.tail());
}

#[test]
fn scale_down_stays_disabled_until_the_last_machine_is_available() {
    let mut world = complete();
    with_annotations(&mut world, "new-1", &[(AWAY, "true"), (BY_US, "true")]);
    world.edit_machine("new-2", |machine| {
        machine.status.current_status.phase = Some(Phase::Pending)
    });
    edit_set(&mut world, "ms1", |set| set.status.available_replicas = 2);
    decide_once(&mut world);
    assert_eq!(node_annotations(&world, "new-1").len(), 2);
}

/// Failed machines may be preserved for days; the nodes of the others are treated as after a complete rollout.
#[rstest]
#[case::preserved("Failed:Preserved", true, 0)]
#[case::not_preserved("Failed", false, 2)]
fn scale_down_is_enabled_again_despite_preserved_failed_machines(
    #[case] phase: &str,
    #[case] preserved: bool,
    #[case] left: usize,
) {
    let mut world = complete();
    decide_once(&mut world);
    with_annotations(&mut world, "new-1", &[(AWAY, "true"), (BY_US, "true")]);
    let ends = Time(world.now + 72.hours());
    world.edit_machine("new-2", |machine| {
        machine.status.current_status.phase = Some(Phase::from(phase));
        machine.status.current_status.preserve_expiry_time = preserved.then(|| ends.clone());
    });
    edit_set(&mut world, "ms1", |set| set.status.available_replicas = 2);
    decide_once(&mut world);
    assert_eq!(node_annotations(&world, "new-1").len(), left);
}

#[rstest]
#[case::absent(None)]
#[case::of_another_machine(Some("another"))]
#[case::with_an_empty_machine_name(Some(""))]
fn a_machine_without_a_matching_node_is_skipped(#[case] owner: Option<&str>) {
    let mut world = rollout();
    match owner {
        None => drop(world.nodes.remove("old-0")),
        Some(owner) => world.edit_node("old-0", |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(keys::MACHINE_NAME_LABEL.to_owned(), owner.to_owned());
        }),
    }
    add_machine(&mut world, "ms1", "old-2", Phase::Pending);
    assert_eq!(writes(&world, "old-0"), 0);
    assert_eq!(writes(&world, "old-1"), 1, "the other node is written");
}
