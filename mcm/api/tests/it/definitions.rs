//! The definitions and the Rust types accept and preserve every field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use mcm_api::{Machine, MachineClass, MachineDeployment, MachineHealthCheck, MachineSet, crd};
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fields::KINDS;
use crate::samples::full_object;
use crate::schemas::violations;

fn definition(kind: &str) -> CustomResourceDefinition {
    crd::all()
        .into_iter()
        .find(|definition| definition.spec.names.kind == kind)
        .unwrap()
}

fn schema(kind: &str) -> JSONSchemaProps {
    definition(kind).spec.versions[0]
        .schema
        .clone()
        .unwrap()
        .open_api_v3_schema
        .unwrap()
}

/// The violations of the schema of its kind by an object, except for metadata, which the API server validates.
pub fn schema_violations(kind: &str, mut object: Value) -> Vec<String> {
    object.as_object_mut().unwrap().remove("metadata");
    violations(&schema(kind), &object, "")
}

#[rstest]
fn the_definitions_accept_and_preserve_every_field(
    #[values("Machine", "MachineClass", "MachineSet", "MachineDeployment", "MachineHealthCheck")] kind: &str,
) {
    assert_eq!(schema_violations(kind, full_object(kind)), Vec::<String>::new());
}

#[test]
fn an_unknown_field_is_reported_as_dropped() {
    let mut object = full_object("Machine");
    object["spec"]["drainTimout"] = json!("1h");
    assert_eq!(schema_violations("Machine", object), [".spec.drainTimout: is dropped"]);
}

#[rstest]
#[case::machine("Machine", round_trip::<Machine>)]
#[case::class("MachineClass", round_trip::<MachineClass>)]
#[case::set("MachineSet", round_trip::<MachineSet>)]
#[case::deployment("MachineDeployment", round_trip::<MachineDeployment>)]
#[case::health_check("MachineHealthCheck", round_trip::<MachineHealthCheck>)]
fn the_types_round_trip_every_field(#[case] kind: &str, #[case] round_trip: fn(Value) -> Value) {
    let object = full_object(kind);
    assert_eq!(round_trip(object.clone()), object);
}

fn round_trip<T: Serialize + DeserializeOwned>(object: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(object).unwrap()).unwrap()
}

#[rstest]
#[case::machine("Machine", round_trip::<Machine>)]
#[case::class("MachineClass", round_trip::<MachineClass>)]
#[case::set("MachineSet", round_trip::<MachineSet>)]
#[case::deployment("MachineDeployment", round_trip::<MachineDeployment>)]
#[case::health_check("MachineHealthCheck", round_trip::<MachineHealthCheck>)]
fn the_types_parse_an_object_without_spec_and_status(#[case] kind: &str, #[case] round_trip: fn(Value) -> Value) {
    let object = json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "metadata": { "creationTimestamp": null } });
    round_trip(object);
}

#[rstest]
#[case::bad_duration("Machine", "/spec/drainTimeout", json!("three days"), ".spec.drainTimeout: is not a duration")]
#[case::duration_as_number("Machine", "/spec/healthTimeout", json!(5), ".spec.healthTimeout: 5 is not a valid string")]
#[case::replicas_as_text("MachineSet", "/spec/replicas", json!("3"), ".spec.replicas: \"3\" is not a valid integer")]
#[case::taint_without_key(
    "MachineSet",
    "/spec/template/spec/nodeTemplate/spec/taints/0",
    json!({ "effect": "NoSchedule" }),
    ".spec.template.spec.nodeTemplate.spec.taints[].key: is required"
)]
fn an_invalid_value_is_rejected_with_its_path(
    #[case] kind: &str,
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] violation: &str,
) {
    let mut object = full_object(kind);
    *object.pointer_mut(pointer).unwrap() = value;
    assert_eq!(schema_violations(kind, object), [violation]);
}

#[test]
fn only_spec_template_and_provider_spec_are_required() {
    for (kind, _) in KINDS {
        let expected: Vec<String> = match kind {
            "MachineClass" => vec![".providerSpec: is required".to_owned()],
            _ => vec![".spec: is required".to_owned()],
        };
        assert_eq!(schema_violations(kind, json!({ "metadata": {} })), expected, "{kind}");
    }
    assert_eq!(
        schema_violations("MachineDeployment", json!({ "metadata": {}, "spec": {} })),
        [".spec.template: is required"]
    );
}

#[test]
fn columns_names_and_subresources_match_the_snapshot() {
    let surface: Vec<Value> = crd::all()
        .into_iter()
        .map(|definition| {
            let version = &definition.spec.versions[0];
            let columns = version.additional_printer_columns.iter().flatten();
            let columns: Vec<String> = columns
                .map(|column| {
                    let wide = if column.priority == Some(1) { " (wide)" } else { "" };
                    format!("{} {} {}{wide}", column.name, column.type_, column.json_path)
                })
                .collect();
            json!({
                "names": definition.spec.names,
                "columns": columns,
                "subresources": version.subresources,
                "scope": definition.spec.scope,
            })
        })
        .collect();
    insta::assert_yaml_snapshot!(surface);
}

#[test]
fn the_definitions_round_trip_through_yaml() {
    let yaml = crd::yaml().unwrap();
    let read: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&yaml).unwrap();
    assert_eq!(read, crd::all());
}
