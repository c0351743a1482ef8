//! Checks the documents from a client's view.

use super::*;
use crate::kinds;

fn resources() -> Vec<Arc<Resource>> {
    kinds::builtin().into_iter().map(Arc::new).collect()
}

/// Two groups, which cover every field.
fn two_groups() -> Vec<Arc<Resource>> {
    resources()
        .into_iter()
        .filter(|resource| resource.plural == "pods" || resource.plural == "deployments")
        .collect()
}

#[test]
fn legacy_documents_list_resources_and_their_subresources() {
    insta::assert_yaml_snapshot!(resource_list(&two_groups(), "", "v1"));
}

#[test]
fn the_aggregated_document_contains_all_groups() {
    insta::assert_yaml_snapshot!(aggregated(&two_groups(), &[], false, "v2"));
}

#[test]
fn groups_are_sorted_by_priority() {
    let list = group_list(&resources(), &[]);
    let names: Vec<&str> = list["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    insta::assert_yaml_snapshot!(names);
}

#[test]
fn kubectl_drain_finds_the_eviction_subresource() {
    let list = resource_list(&resources(), "", "v1").unwrap();
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
        group(&resources(), &[], "policy").unwrap()["preferredVersion"]["groupVersion"],
        "policy/v1"
    );
}

#[test]
fn unserved_groups_have_no_document() {
    assert_eq!(group(&resources(), &[], "nothing"), None);
    assert_eq!(resource_list(&resources(), "apps", "v1beta1"), None);
}

#[test]
fn the_storage_version_hash_equals_upstream() {
    let list = resource_list(&resources(), "", "v1").unwrap();
    let hash = |name: &str| {
        let entries = list["resources"].as_array().unwrap();
        entries.iter().find(|entry| entry["name"] == name).unwrap()["storageVersionHash"].clone()
    };
    assert_eq!(
        (hash("pods"), hash("nodes")),
        ("xPOwRZ+Yhw8=".into(), "XwShjMxG9Fs=".into())
    );
}
