//! The documents as clients read them.

use super::*;
use crate::kinds;

fn rows() -> Vec<Arc<Resource>> {
    kinds::builtin().into_iter().map(Arc::new).collect()
}

/// The rows of two groups, which is enough to see every field.
fn some() -> Vec<Arc<Resource>> {
    rows()
        .into_iter()
        .filter(|row| row.plural == "pods" || row.plural == "deployments")
        .collect()
}

#[test]
fn legacy_documents_list_resources_and_their_subresources() {
    insta::assert_yaml_snapshot!(resource_list(&some(), "", "v1"));
}

#[test]
fn the_aggregated_document_carries_the_same_at_once() {
    insta::assert_yaml_snapshot!(aggregated(&some(), false, "v2"));
}

#[test]
fn groups_come_in_the_order_of_their_priority() {
    let list = group_list(&rows());
    let names: Vec<&str> = list["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    insta::assert_yaml_snapshot!(names);
}

#[test]
fn evictions_are_found_where_drains_look_for_them() {
    let list = resource_list(&rows(), "", "v1").unwrap();
    let entry = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["name"] == "pods/eviction")
        .unwrap();
    assert_eq!(
        (&entry["group"], &entry["version"], &entry["kind"]),
        (&"policy".into(), &"v1".into(), &"Eviction".into())
    );
    assert_eq!(
        group(&rows(), "policy").unwrap()["preferredVersion"]["groupVersion"],
        "policy/v1"
    );
}

#[test]
fn what_is_not_served_is_not_there() {
    assert_eq!(group(&rows(), "nothing"), None);
    assert_eq!(resource_list(&rows(), "apps", "v1beta1"), None);
}

#[test]
fn the_storage_version_hash_is_the_one_of_upstream() {
    let list = resource_list(&rows(), "", "v1").unwrap();
    let hash = |name: &str| {
        let entries = list["resources"].as_array().unwrap();
        entries.iter().find(|entry| entry["name"] == name).unwrap()["storageVersionHash"].clone()
    };
    assert_eq!(
        (hash("pods"), hash("nodes")),
        ("xPOwRZ+Yhw8=".into(), "XwShjMxG9Fs=".into())
    );
}
