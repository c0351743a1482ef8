//! Checks the documents from kubectl's view.

use serde_json::Value;

use super::*;
use crate::kinds;

fn resources() -> Vec<Arc<Resource>> {
    kinds::builtin().into_iter().map(Arc::new).collect()
}

#[test]
fn every_document_of_the_index_is_served_under_its_hash() {
    let resources = resources();
    let index = index(&resources);
    let paths = index["paths"].as_object().unwrap();
    assert!(
        paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"),
        "{paths:?}"
    );
    for (name, entry) in paths {
        let document = document(&resources, name).unwrap();
        let url = format!("/openapi/v3/{name}?hash={}", etag(&document));
        assert_eq!(entry["serverRelativeURL"], url.as_str());
    }
    assert_eq!(document(&resources, "apis/nothing/v1"), None);
}

#[test]
fn every_reference_resolves_to_a_schema() {
    let resources = resources();
    for name in index(&resources)["paths"].as_object().unwrap().keys() {
        let document = document(&resources, name).unwrap();
        let text = document.to_string();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let schema = part.split('"').next().unwrap();
            assert!(
                document["components"]["schemas"].get(schema).is_some(),
                "{name} does not contain {schema}"
            );
        }
    }
}

#[test]
fn patches_declare_their_kind_and_field_validation() {
    let document = document(&resources(), "apis/apps/v1").unwrap();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let expected = serde_json::json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
    assert_eq!(patch["x-kubernetes-group-version-kind"], expected);
    let names: Vec<&str> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|parameter| parameter["name"].as_str())
        .collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
}

#[test]
fn every_kind_has_a_schema_that_names_it() {
    let resources = resources();
    for resource in resources.iter().filter(|resource| resource.is_stored()) {
        let document = document(&resources, &document_name(resource)).unwrap();
        let schema = &document["components"]["schemas"][schemas::name(resource)];
        let named = schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten();
        let named: Vec<&Value> = named.collect();
        assert!(
            named.iter().any(|gvk| gvk["kind"] == resource.kind.as_str()),
            "{}: {named:?}",
            resource.kind
        );
    }
}
