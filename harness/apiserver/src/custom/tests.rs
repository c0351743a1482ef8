//! The path of a definition from user input to resources.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::resource::{Generation, Printer, Subresource};

fn widgets() -> Value {
    json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"] },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
                    "status": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
                } } },
                "subresources": {
                    "status": {},
                    "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" },
                },
                "additionalPrinterColumns": [
                    { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas" },
                ],
                "selectableFields": [{ "jsonPath": ".spec.replicas" }],
            }],
        },
    })
}

fn established() -> Value {
    let mut crd = widgets();
    establish(&mut crd, "2026-01-01T00:00:00Z", &TakenNames::default());
    crd
}

#[test]
fn a_definition_is_established_by_its_creation() {
    let crd = established();
    assert_eq!(validate(&crd, None), []);
    insta::assert_yaml_snapshot!(crd["status"]);
    assert_eq!(crd["spec"]["conversion"], json!({ "strategy": "None" }));
}

#[test]
fn unchanged_conditions_keep_their_transition_time() {
    let before = established();
    let mut after = before.clone();
    establish(&mut after, "2027-01-01T00:00:00Z", &TakenNames::default());
    assert_eq!(after, before);
}

#[test]
fn a_served_version_becomes_a_resource() {
    let resources = resources(&established()).unwrap();
    let [resource] = resources.as_slice() else {
        panic!("{resources:?}")
    };
    assert_eq!(
        (resource.qualified().as_str(), resource.list_kind.as_str()),
        ("widgets.example.com", "WidgetList")
    );
    assert_eq!(
        (resource.singular.as_str(), resource.short_names.as_slice()),
        ("widget", &["wd".to_owned()][..])
    );
    assert_eq!(resource.generation, Generation::Content);
    assert!(resource.namespaced && resource.has_status() && resource.is_custom() && !resource.unconditional_update);
    assert!(matches!(
        resource.subresource("scale"),
        Some(Subresource::Scale { selector: None, .. })
    ));
    assert!(matches!(&resource.printer, Printer::Paths(columns) if columns.len() == 1));
    assert_eq!(
        (
            resource.selectable[0].label.as_str(),
            resource.selectable[0].pointer.as_str()
        ),
        ("spec.replicas", "/spec/replicas")
    );
}

#[test]
fn the_storage_version_comes_first_and_unserved_versions_are_omitted() {
    let mut crd = established();
    let mut version = |name: &str, served: bool| {
        let mut version = crd["spec"]["versions"][0].clone();
        version["name"] = name.into();
        version["served"] = served.into();
        version["storage"] = false.into();
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        versions.insert(0, version);
    };
    version("v1beta1", true);
    version("v1", false);
    let versions: Vec<String> = resources(&crd)
        .unwrap()
        .into_iter()
        .map(|resource| resource.version)
        .collect();
    assert_eq!(versions, ["v1alpha1", "v1beta1"]);
}

#[rstest]
#[case("/metadata/name", json!("wrong.example.com"), "metadata.name")]
#[case("/spec/scope", json!("World"), "spec.scope")]
#[case("/spec/versions/0/storage", json!(false), "spec.versions")]
#[case("/spec/versions/0/name", json!("V1"), "spec.versions[0].name")]
#[case("/spec/versions/0/schema", json!({}), "spec.versions[0].schema.openAPIV3Schema")]
#[case("/spec/names/shortNames/0", json!("W D"), "spec.names.shortNames[0]")]
#[case("/spec/conversion/strategy", json!("Other"), "spec.conversion.strategy")]
#[case(
    "/spec/versions/0/additionalPrinterColumns/0/jsonPath",
    json!("spec.replicas"),
    "spec.versions[0].additionalPrinterColumns[0].jsonPath"
)]
#[case(
    "/spec/versions/0/subresources/scale/specReplicasPath",
    json!(".status.replicas"),
    "spec.versions[0].subresources.scale.specReplicasPath"
)]
#[case("/spec/versions/0/selectableFields/0/jsonPath", json!(".spec.a[0]"), "spec.versions[0].selectableFields[0].jsonPath")]
fn invalid_definitions_are_reported(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    let mut crd = established();
    *crd.pointer_mut(pointer).unwrap() = value;
    let errors = validate(&crd, None);
    assert!(errors.iter().any(|error| error.field == expected), "{errors:?}");
}

#[test]
fn a_stored_version_cannot_be_removed() {
    let old = established();
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = "v1".into();
    establish(&mut new, "2026-01-01T00:00:00Z", &TakenNames::default());
    let fields: Vec<String> = validate(&new, Some(&old))
        .into_iter()
        .map(|error| error.field)
        .collect();
    assert_eq!(fields, ["status.storedVersions[0]"]);
}

#[test]
fn the_scope_is_immutable() {
    let old = established();
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    let errors: Vec<String> = validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(errors, [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]);
}
