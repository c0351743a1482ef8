//! What one decision about a deployment does, strategy by strategy, where sets are missing, out of date or on their way out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, keys};
use mcm_core::deployment::Reason;
use mcm_core::steps::{Act, Kind};
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
#[case::its_set_is_there(json!({}), 1, 0)]
#[case::recreate(recreate(), 0, 1)]
#[case::in_place(in_place("Auto", 1, 0), 0, 1)]
#[case::unknown_strategy(json!({ "type": "Sideways" }), 0, 0)]
fn a_deployment_has_one_set_of_its_template(#[case] strategy: Value, #[case] there: i32, #[case] made: usize) {
    let mut world = world_of(2, strategy);
    for number in 0..there {
        add_set(&mut world, i64::from(number) + 1, "class-a", 2);
    }
    assert_eq!(new_sets(&plan(&world)).len(), made);
    decide_all(&mut world);
    assert_eq!(world.sets.len(), made + there as usize, "none comes after it");
}

#[rstest]
#[case::nothing_is_selected(json!({}))]
#[case::no_labels_are_selected(json!({ "matchLabels": {} }))]
#[case::an_unknown_operator(json!({ "matchExpressions": [{ "key": "name", "operator": "Is", "values": ["md"] }] }))]
fn a_deployment_whose_selector_cannot_be_used_makes_no_set(#[case] selector: Value) {
    let mut world = world_of(2, rolling(1, 0));
    world.edit("selector", |one| {
        one.spec.selector = serde_json::from_value(selector.clone()).unwrap();
    });
    let plan = plan(&world);
    assert!(new_sets(&plan).is_empty());
    let told = plan.steps.iter().any(|step| matches!(step.reason, Reason::Invalid(_)));
    assert!(told, "{plan:#?}");
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

/// A deployment that is being deleted, with these finalizers and so many sets.
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
#[case::no_set_and_a_finalizer_of_others(leaving(&[keys::MACHINE_FINALIZER, "other"], 0), &[], Some(json!(["other"])))]
#[case::our_finalizer_is_gone(leaving(&["other"], 2), &[], None)]
fn a_deployment_that_goes_takes_its_sets_and_then_its_finalizer(
    #[case] world: World,
    #[case] deleted: &[&str],
    #[case] finalizers: Option<Value>,
) {
    let plan = plan(&world);
    let mut gone = Vec::new();
    let mut left = None;
    for step in &plan.steps {
        match &step.act {
            Act::Delete {
                kind: Kind::Set, name, ..
            } => gone.push(name.as_str()),
            Act::Patch {
                kind: Kind::Deployment,
                patch,
                ..
            } => left = Some(patch["metadata"]["finalizers"].clone()),
            _ => {}
        }
    }
    assert_eq!((gone.as_slice(), left), (deleted, finalizers));
}

#[rstest]
#[case::none(None, json!([keys::MACHINE_FINALIZER]))]
#[case::that_of_others(Some("a/first"), json!(["a/first", keys::MACHINE_FINALIZER]))]
fn a_new_deployment_gets_its_finalizer_before_any_set(#[case] others: Option<&str>, #[case] expected: Value) {
    let mut world = world_of(1, rolling(1, 0));
    world.edit("finalizers", |one| {
        one.metadata.finalizers = others.map(|name| vec![name.to_owned()]);
    });
    let plan = plan(&world);
    assert_eq!(plan.steps.len(), 1);
    let Act::Patch { patch, .. } = &plan.steps[0].act else {
        panic!("{plan:#?}");
    };
    assert_eq!(patch["metadata"]["finalizers"], expected);
}

/// Machines of the old set, its size, and whether one more is on its way out.
#[rstest]
#[case::first_set(None, 0, Some(3))]
#[case::old_set_is_emptied_first(Some(3), 3, None)]
#[case::old_machine_is_still_there(Some(0), 1, None)]
#[case::old_machines_are_gone(Some(0), 0, Some(3))]
fn recreate_makes_the_new_set_when_no_old_machine_is_left(
    #[case] old: Option<i32>,
    #[case] machines: usize,
    #[case] made: Option<i32>,
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
    assert_eq!(sizes, made.into_iter().collect::<Vec<_>>());
    decide_once(&mut world);
    if old.is_some() {
        assert_eq!(size(&world, "ms1"), 0);
    }
}

/// Upstream sizes it 2: it counts machines that were ordered only when they are there.
#[test]
fn a_rolling_update_begins_with_a_second_set_of_the_surge_and_leaves_the_old_one() {
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
fn a_template_that_changed_gets_a_set_unless_the_deployment_is_paused(#[case] paused: bool, #[case] made: usize) {
    let mut world = world_of(5, rolling(1, 1));
    add_full_set(&mut world, 1, "class-x", 5, "old");
    world.edit("pause", |one| one.spec.paused = paused);
    let plan = plan(&world);
    assert_eq!(new_sets(&plan).len(), made);
    decide_all(&mut world);
    assert_eq!(world.sets.len(), 1 + made);
    // Not paused, one may be missing.
    assert_eq!(size(&world, "ms1"), if paused { 5 } else { 4 });
}
