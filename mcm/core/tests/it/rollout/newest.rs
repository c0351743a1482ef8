//! The set of the deployment's template: its creation or reuse, its revision, and changes that need no new machines.

use std::collections::BTreeMap;

use mcm_api::keys;
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::{
    add_full_set, add_set, decide_all, decide_once, edit_set, new_sets, plan, set_annotation, world_of,
};
use super::sequences::rolling;
use super::world::World;

/// A settled deployment with one machine of class a in set `ms1`.
fn settled() -> World {
    let mut world = world_of(1, rolling(1, 0));
    add_full_set(&mut world, 1, "class-a", 1, "m");
    decide_all(&mut world);
    world
}

#[rstest]
#[case::no_set(&[], true)]
#[case::sets_of_other_templates(&["class-x", "class-y"], true)]
#[case::an_equal_set(&["class-x", "class-a"], false)]
#[case::two_equal_sets(&["class-a", "class-a"], false)]
fn a_set_is_created_if_none_has_the_template(#[case] classes: &[&str], #[case] created: bool) {
    let mut world = world_of(1, rolling(1, 0));
    for (number, class) in (1..).zip(classes) {
        add_set(&mut world, number, class, 0);
    }
    let plan = plan(&world);
    let sets = new_sets(&plan);
    assert_eq!(sets.len(), usize::from(created));
    for set in sets {
        let name = set.metadata.name.as_deref().unwrap();
        assert!(name.starts_with("md-") && !world.sets.contains_key(name), "{name}");
        let next = (classes.len() + 1).to_string();
        assert_eq!(
            set.metadata.annotations.as_ref().unwrap()[keys::REVISION_ANNOTATION],
            next
        );
    }
}

#[test]
fn the_oldest_of_equal_sets_is_the_newest() {
    let mut world = world_of(2, rolling(1, 0));
    for number in [1, 2] {
        add_full_set(&mut world, number, "class-a", 1, &format!("m{number}"));
    }
    decide_all(&mut world);
    assert_eq!(set_annotation(&world, "ms2", keys::PREFER_NO_SCHEDULE), Some("True"));
    assert_eq!(set_annotation(&world, "ms1", keys::PREFER_NO_SCHEDULE), None);
}

#[test]
fn a_new_set_selects_the_deployments_labels_and_the_template_hash() {
    let mut world = world_of(3, rolling(1, 0));
    world.edit("template", |one| {
        one.spec.min_ready_seconds = 7;
        let labels = one.spec.template.metadata.labels.get_or_insert_default();
        labels.insert("pool".to_owned(), "workers".to_owned());
    });
    let plan = plan(&world);
    let set = new_sets(&plan)[0];
    let labels = set.metadata.labels.clone().unwrap();
    let hash = labels[keys::TEMPLATE_HASH_LABEL].clone();
    let with_hash = |given: &[(&str, &str)]| -> BTreeMap<String, String> {
        let ours = (keys::TEMPLATE_HASH_LABEL, hash.as_str());
        let all = given.iter().copied().chain([ours]);
        all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    assert_eq!(labels, with_hash(&[("name", "md"), ("pool", "workers")]));
    assert_eq!(set.spec.template.metadata.labels.as_ref(), Some(&labels));
    let selected = set.spec.selector.as_ref().unwrap().match_labels.as_ref();
    assert_eq!(selected, Some(&with_hash(&[("name", "md")])));
    assert_eq!(set.spec.min_ready_seconds, 7);
    let owner = &set.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.controller), ("uid-md", Some(true)));
    let annotations = set.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[keys::DESIRED_REPLICAS_ANNOTATION], "3");
    assert_eq!(annotations[keys::MAX_REPLICAS_ANNOTATION], "4");
}

#[rstest]
#[case::the_set_has_none(json!(null), json!({"metadata": {"labels": {"a": "1"}}}), true)]
#[case::other_values(json!({"metadata": {"labels": {"a": "2", "b": "2"}}}), json!({"metadata": {"labels": {"a": "1"}}}), true)]
#[case::the_deployment_has_none(json!({"metadata": {"labels": {"a": "1"}}}), json!(null), true)]
#[case::unchanged(json!({"metadata": {"labels": {"a": "1"}}}), json!({"metadata": {"labels": {"a": "1"}}}), false)]
#[case::empty_equals_none(json!(null), json!({"metadata": {"labels": {}}}), false)]
fn a_node_template_is_copied_to_the_equal_set(#[case] of_set: Value, #[case] wanted: Value, #[case] copied: bool) {
    let mut world = settled();
    edit_set(&mut world, "ms1", |set| {
        set.spec.template.spec.node_template = serde_json::from_value(of_set.clone()).unwrap();
    });
    world.edit("node template", |one| {
        one.spec.template.spec.node_template = serde_json::from_value(wanted.clone()).unwrap();
    });
    let before = world.sets["ms1"].clone();
    decide_once(&mut world);
    assert_eq!(world.sets.len(), 1, "the set is reused");
    let after = &world.sets["ms1"];
    let expected = if copied {
        &world.deployment.as_ref().unwrap().spec.template.spec.node_template
    } else {
        &before.spec.template.spec.node_template
    };
    assert_eq!(&after.spec.template.spec.node_template, expected);
    assert_eq!(
        before.metadata.resource_version != after.metadata.resource_version,
        copied
    );
}

#[rstest]
#[case::class_kind(json!({"class": {"kind": "OtherClass"}}))]
#[case::settings(json!({"drainTimeout": "1h0m0s", "maxEvictRetries": 3}))]
fn changes_that_start_no_rollout_are_copied_to_the_equal_set(#[case] change: Value) {
    let mut world = settled();
    world.edit("template", |one| {
        let mut spec = serde_json::to_value(&one.spec.template.spec).unwrap();
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Object(fields) => spec[key].as_object_mut().unwrap().extend(fields.clone()),
                value => spec[key] = value.clone(),
            }
        }
        one.spec.template.spec = serde_json::from_value(spec).unwrap();
    });
    decide_once(&mut world);
    assert_eq!(world.sets.len(), 1);
    let wanted = &world.deployment.as_ref().unwrap().spec.template.spec;
    assert_eq!(&world.sets["ms1"].spec.template.spec, wanted);
}

/// The revision of an old set, the revision of the newest set before and after, and its revision history.
#[rstest]
#[case::lower_revision("1", Some("0"), "2", Some("0"))]
#[case::equal_revision("1", Some("1"), "2", Some("1"))]
#[case::no_revision("1", None, "2", None)]
#[case::first_revision("0", None, "1", None)]
#[case::already_highest("1", Some("2"), "2", None)]
#[case::no_other_revision("0", Some("1"), "1", None)]
#[case::invalid_old_revision("one", Some("1"), "1", None)]
fn the_newest_set_has_the_highest_revision(
    #[case] old: &str,
    #[case] before: Option<&str>,
    #[case] after: &str,
    #[case] history: Option<&str>,
) {
    let mut world = world_of(1, rolling(1, 0));
    add_set(&mut world, 1, "class-x", 0);
    add_full_set(&mut world, 2, "class-a", 1, "m");
    let set_revision = |world: &mut World, set: &str, revision: Option<&str>| {
        edit_set(world, set, |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.remove(keys::REVISION_ANNOTATION);
            annotations.extend(revision.map(|revision| (keys::REVISION_ANNOTATION.to_owned(), revision.to_owned())));
        });
    };
    set_revision(&mut world, "ms1", Some(old));
    set_revision(&mut world, "ms2", before);
    world.edit("node template", |one| {
        one.spec.template.spec.node_template =
            serde_json::from_value(json!({"metadata": {"labels": {"a": "1"}}})).unwrap();
    });
    decide_all(&mut world);
    assert_eq!(set_annotation(&world, "ms2", keys::REVISION_ANNOTATION), Some(after));
    assert_eq!(
        set_annotation(&world, "ms2", keys::REVISION_HISTORY_ANNOTATION),
        history
    );
    assert_eq!(set_annotation(&world, "ms1", keys::REVISION_ANNOTATION), Some(old));
    let annotations = world.deployment.as_ref().unwrap().metadata.annotations.clone().unwrap();
    assert_eq!(annotations[keys::REVISION_ANNOTATION], after);
}

type Texts<'a> = &'a [(&'a str, &'a str)];

fn map(texts: Texts) -> BTreeMap<String, String> {
    texts
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[rstest]
#[case::disjoint(&[("a", "1")], &[("b", "2")], &[("a", "1"), ("b", "2")])]
#[case::the_later_overrides(&[("a", "1"), ("b", "1")], &[("b", "2")], &[("a", "1"), ("b", "2")])]
#[case::nothing_to_add_to(&[], &[("b", "2")], &[("b", "2")])]
#[case::nothing_to_add(&[("a", "1")], &[], &[("a", "1")])]
#[case::empty(&[], &[], &[])]
#[case::annotations_that_are_not_copied(&[], &[
    (keys::LAST_APPLIED_ANNOTATION, "{}"), (keys::UNFREEZE_ANNOTATION, "True"), (keys::PREFER_NO_SCHEDULE, "True"),
    (keys::MAX_REPLICAS_ANNOTATION, "9"), (keys::REVISION_HISTORY_ANNOTATION, "8"),
], &[])]
fn annotations_of_the_deployment_are_added_to_those_of_the_set(
    #[case] of_set: Texts,
    #[case] of_deployment: Texts,
    #[case] expected: Texts,
) {
    let mut world = settled();
    let before = world.sets["ms1"].metadata.annotations.clone().unwrap();
    edit_set(&mut world, "ms1", |set| {
        set.metadata.annotations.get_or_insert_default().extend(map(of_set));
    });
    world.edit("annotations", |one| {
        one.metadata
            .annotations
            .get_or_insert_default()
            .extend(map(of_deployment));
    });
    decide_all(&mut world);
    let mut after = world.sets["ms1"].metadata.annotations.clone().unwrap();
    after.retain(|key, value| before.get(key) != Some(value));
    assert_eq!(after, map(expected));
}
