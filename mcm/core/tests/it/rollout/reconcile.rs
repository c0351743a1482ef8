//! Single decisions about a deployment for each strategy, with missing, outdated or terminating sets.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, keys};
use mcm_core::deployment::Reason;
use mcm_core::steps::{Kind, OwnerAction};
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::{
    add_full_set, add_machine, add_set, decide_all, decide_once, in_place, new_sets, plan, size, world_of,
};
use super::sequences::rolling;
use super::world::World;
use crate::fixtures::start;

fn recreate() -> Value {
    json!({ "type": "Recreate" })
}

#[rstest]
#[case::no_set_yet(json!({}), 0, 1)]
#[case::existing_set(json!({}), 1, 0)]
#[case::recreate(recreate(), 0, 1)]
#[case::in_place(in_place("Auto", 1, 0), 0, 1)]
#[case::unknown_strategy(json!({ "type": "Sideways" }), 0, 0)]
fn a_deployment_has_one_set_for_its_template(#[case] strategy: Value, #[case] existing: i32, #[case] created: usize) {
    let mut world = world_of(2, strategy);
    for number in 0..existing {
        add_set(&mut world, i64::from(number) + 1, "class-a", 2);
    }
    assert_eq!(new_sets(&plan(&world)).len(), created);
    decide_all(&mut world);
    assert_eq!(
        world.sets.len(),
        created + existing as usize,
        "no further set is created"
    );
}

#[rstest]
#[case::nothing_is_selected(json!({}))]
#[case::no_labels_are_selected(json!({ "matchLabels": {} }))]
#[case::an_unknown_operator(json!({ "matchExpressions": [{ "key": "name", "operator": "Is", "values": ["md"] }] }))]
fn a_deployment_with_an_unusable_selector_creates_no_set(#[case] selector: Value) {
    let mut world = world_of(2, rolling(1, 0));
    world.edit("selector", |one| {
        one.spec.selector = serde_json::from_value(selector.clone()).unwrap();
    });
    let plan = plan(&world);
    assert!(new_sets(&plan).is_empty());
    let reported = plan.steps.iter().any(|step| matches!(step.reason, Reason::Invalid(_)));
    assert!(reported, "{plan:#?}");
}

#[test]
fn a_settled_deployment_does_nothing() {
    let mut world = world_of(2, rolling(1, 0));
    add_full_set(&mut world, 1, "class-a", 2, "a");
    decide_all(&mut world);
    assert_eq!(plan(&world).steps, vec![]);
    let status = &world.deployment.as_ref().unwrap().status;
    assert_eq!((status.replicas, status.available_replicas), (2, 2));
}

/// A deployment that is being deleted, with these finalizers and this number of sets.
fn leaving(finalizers: &[&str], sets: i64) -> World {
    let mut world = world_of(2, rolling(1, 0));
    for number in 1..=sets {
        add_set(&mut world, number, "class-a", 0);
    }
    world.edit("delete", |one| {
        one.metadata.deletion_timestamp = Some(Time(start()));
        one.metadata.finalizers = Some(finalizers.iter().map(|name| (*name).to_owned()).collect());
    });
    world
}

#[rstest]
#[case::two_sets(leaving(&[keys::MACHINE_FINALIZER], 2), &["ms1", "ms2"], None)]
#[case::no_set(leaving(&[keys::MACHINE_FINALIZER], 0), &[], Some(json!([])))]
#[case::no_set_and_a_foreign_finalizer(leaving(&[keys::MACHINE_FINALIZER, "other"], 0), &[], Some(json!(["other"])))]
#[case::without_the_finalizer(leaving(&["other"], 2), &[], None)]
fn a_deleted_deployment_deletes_its_sets_and_then_removes_its_finalizer(
    #[case] world: World,
    #[case] deleted: &[&str],
    #[case] finalizers: Option<Value>,
) {
    let plan = plan(&world);
    let mut deletions = Vec::new();
    let mut remaining = None;
    for step in &plan.steps {
        match &step.action {
            OwnerAction::Delete {
                kind: Kind::Set, name, ..
            } => deletions.push(name.as_str()),
            OwnerAction::Patch {
                kind: Kind::Deployment,
                patch,
                ..
            } => remaining = Some(patch["metadata"]["finalizers"].clone()),
            _ => {}
        }
    }
    assert_eq!((deletions.as_slice(), remaining), (deleted, finalizers));
}

#[rstest]
#[case::none(None, json!([keys::MACHINE_FINALIZER]))]
#[case::foreign(Some("a/first"), json!(["a/first", keys::MACHINE_FINALIZER]))]
fn a_new_deployment_gets_its_finalizer_before_any_set(#[case] others: Option<&str>, #[case] expected: Value) {
    let mut world = world_of(1, rolling(1, 0));
    world.edit("finalizers", |one| {
        one.metadata.finalizers = others.map(|name| vec![name.to_owned()]);
    });
    let plan = plan(&world);
    assert_eq!(plan.steps.len(), 1);
    let OwnerAction::Patch { patch, .. } = &plan.steps[0].action else {
        panic!("{plan:#?}");
    };
    assert_eq!(patch["metadata"]["finalizers"], expected);
}

/// The size of the old set, the number of its machines, and the size of the new set.
#[rstest]
#[case::first_set(None, 0, Some(3))]
#[case::old_set_is_scaled_to_zero_first(Some(3), 3, None)]
#[case::an_old_machine_exists(Some(0), 1, None)]
#[case::old_machines_are_deleted(Some(0), 0, Some(3))]
fn recreate_creates_the_new_set_when_no_old_machine_is_left(
    #[case] old: Option<i32>,
    #[case] machines: usize,
    #[case] created: Option<i32>,
) {
    let mut world = world_of(3, recreate());
    if let Some(size) = old {
        add_set(&mut world, 1, "class-x", size);
    }
    for number in 0..machines {
        add_machine(&mut world, "ms1", &format!("old-{number}"), Phase::Running);
    }
    let plan = plan(&world);
    let sizes: Vec<i32> = new_sets(&plan).iter().map(|set| set.spec.replicas).collect();
    assert_eq!(sizes, created.into_iter().collect::<Vec<_>>());
    decide_once(&mut world);
    if old.is_some() {
        assert_eq!(size(&world, "ms1"), 0);
    }
}

/// Upstream creates the set with size 2, because it counts requested machines only when they exist.
#[test]
fn a_rolling_update_starts_with_a_new_set_of_the_surge_size() {
    let mut world = world_of(5, rolling(1, 1));
    add_full_set(&mut world, 1, "class-x", 5, "old");
    decide_once(&mut world);
    let new: Vec<_> = world
        .sets
        .values()
        .filter(|set| set.metadata.name.as_deref() != Some("ms1"))
        .collect();
    assert_eq!((new.len(), new[0].spec.replicas), (1, 1));
    assert_eq!(size(&world, "ms1"), 5);
    assert_eq!(new[0].spec.template.spec.class.name, "class-a");
}

#[rstest]
#[case::paused(true, 0)]
#[case::not_paused(false, 1)]
fn a_changed_template_gets_a_set_unless_the_deployment_is_paused(#[case] paused: bool, #[case] created: usize) {
    let mut world = world_of(5, rolling(1, 1));
    add_full_set(&mut world, 1, "class-x", 5, "old");
    world.edit("pause", |one| one.spec.paused = paused);
    let plan = plan(&world);
    assert_eq!(new_sets(&plan).len(), created);
    decide_all(&mut world);
    assert_eq!(world.sets.len(), 1 + created);
    // Unless the deployment is paused, one machine may be unavailable.
    assert_eq!(size(&world, "ms1"), if paused { 5 } else { 4 });
}
