//! Checks the document from kubectl's view.

use std::sync::Arc;

use super::*;
use crate::kinds;

fn whole() -> Value {
    let resources: Vec<Arc<Resource>> = kinds::builtin().into_iter().map(Arc::new).collect();
    document_v2(&resources)
}

#[test]
fn every_reference_resolves_to_a_definition() {
    let document = whole();
    let text = document.to_string();
    assert!(!text.contains("#/components/"));
    for part in text.split("\"#/definitions/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["definitions"].get(name).is_some(), "{name}");
    }
}

#[test]
fn a_write_has_a_body_and_the_parameter_for_field_validation() {
    let document = whole();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    let place = |name: &str| {
        let mut found = parameters.iter().filter(|parameter| parameter["name"] == name);
        found.next().map(|parameter| parameter["in"].clone())
    };
    assert_eq!(
        (place("fieldValidation"), place("body")),
        (Some("query".into()), Some("body".into()))
    );
    assert!(
        patch["consumes"]
            .as_array()
            .unwrap()
            .contains(&"application/merge-patch+json".into())
    );
}

#[test]
fn a_schema_has_only_what_v2_has() {
    let converted = schema(&json!({
        "type": "object",
        "properties": {
            "null": { "type": "string", "nullable": true },
            "either": { "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] },
            "spec": { "description": "d", "allOf": [{ "$ref": "#/components/schemas/a.B" }] },
            "list": { "type": "array", "items": { "$ref": "#/components/schemas/a.B" } },
        },
    }));
    let expected = json!({
        "type": "object",
        "properties": {
            "null": {},
            "either": { "format": "int-or-string", "type": "string" },
            "spec": { "description": "d", "$ref": "#/definitions/a.B" },
            "list": { "type": "array", "items": { "$ref": "#/definitions/a.B" } },
        },
    });
    assert_eq!(converted, expected);
}

#[test]
fn a_message_has_the_numbers_of_the_protocol() {
    let document = json!({
        "swagger": "2.0",
        "definitions": { "A": { "type": "object", "x-k": [1], "additionalProperties": { "maxLength": 300 } } },
    });
    let expected = [
        b"\x0a\x032.0".as_slice(),
        // definitions (9): a definition (1) with its name (1) and schema (2)
        b"\x4a\x29\x0a\x27\x0a\x01A\x12\x22",
        // additionalProperties (21): a schema (1) with maxLength (11)
        b"\xaa\x01\x05\x0a\x03\x58\xac\x02",
        // type (22): a text (1)
        b"\xb2\x01\x08\x0a\x06object",
        // an extension (31) with its name (1) and YAML (2)
        b"\xfa\x01\x0c\x0a\x03x-k\x12\x05\x12\x03[1]",
    ];
    assert_eq!(protobuf::encode(&document), expected.concat());
}
