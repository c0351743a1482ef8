//! Expressions in definitions: JSONPaths of printer columns, and CEL rules.

use serde_json::{Value, json};

use super::schemas::try_definition;
use super::world::{World, definition};
use crate::Violation;
use crate::target::Runner;

/// An object with values of all types.
fn object() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" },
        "spec": {
            "text": "some text", "count": 7, "ratio": 1.5, "flag": true, "when": "2026-01-01T00:00:00Z", "size": "5Gi", "port": "http",
            "numbers": [1, 2, 3], "words": ["a", "b"], "map": { "a": 1, "b": 2 },
            "parts": [{ "name": "x", "size": 1 }, { "name": "y", "size": 2 }],
        },
    })
}

fn schema(rule: Option<&str>) -> Value {
    let (string, integer) = (
        json!({ "type": "string", "maxLength": 20 }),
        json!({ "type": "integer" }),
    );
    let mut spec = json!({
        "type": "object",
        "properties": {
            "text": string, "count": integer, "ratio": { "type": "number" }, "flag": { "type": "boolean" },
            "when": { "type": "string", "format": "date-time" }, "size": string, "port": { "x-kubernetes-int-or-string": true },
            "numbers": { "type": "array", "maxItems": 10, "items": integer },
            "words": { "type": "array", "maxItems": 10, "items": string },
            "map": { "type": "object", "maxProperties": 10, "additionalProperties": integer },
            "parts": { "type": "array", "maxItems": 10, "items": {
                "type": "object", "properties": { "name": string, "size": integer },
            } },
        },
    });
    if let Some(rule) = rule {
        spec["x-kubernetes-validations"] = json!([{ "rule": rule }]);
    }
    json!({ "type": "object", "properties": { "spec": spec } })
}

pub(super) fn start_jsonpath() -> Result<Runner, Violation> {
    start(|text| {
        definition(
            &schema(None),
            &json!([{ "name": "C", "type": "string", "jsonPath": text }]),
        )
    })
}

pub(super) fn start_cel() -> Result<Runner, Violation> {
    start(|text| definition(&schema(Some(text)), &json!([])))
}

/// Creates a definition that contains the text, and an object; then updates the object, which evaluates transition rules.
fn start(define: fn(&str) -> Value) -> Result<Runner, Violation> {
    let mut world = Some(World::new()?);
    Ok(Box::new(move |input| {
        let mut other = object();
        other["spec"] = json!({ "text": "", "numbers": [], "map": {} });
        let definition = define(&String::from_utf8_lossy(input));
        try_definition(&mut world, &definition, &[object(), other])
    }))
}
