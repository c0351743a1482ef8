//! A small valid value of an OpenAPI schema: what its required fields need, and no more.

use serde_json::{Map, Value, json};

/// The preferred number: more than one part, node or replica shows more than one does.
const NUMBER: i64 = 3;
/// The preferred text.
const TEXT: &str = "example";

/// A value that the schema accepts, as far as types, enums, bounds, lengths and formats decide. Patterns and rules may
/// refuse it.
pub(super) fn value(schema: &Value) -> Value {
    let given = schema.get("default").or_else(|| schema.pointer("/enum/0"));
    if let Some(given) = given {
        return given.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return NUMBER.into();
    }
    match schema["type"].as_str() {
        Some("array") => Value::Array(vec![value(&schema["items"]); size(schema, "minItems")]),
        Some("boolean") => true.into(),
        Some("integer" | "number") => number(schema).into(),
        Some("string") => text(schema).into(),
        _ => fields(schema),
    }
}

/// The required fields of an object.
pub(super) fn fields(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required.filter_map(Value::as_str);
    let properties = &schema["properties"];
    let fields: Map<String, Value> = required
        .map(|name| (name.to_owned(), value(&properties[name])))
        .collect();
    Value::Object(fields)
}

fn size(schema: &Value, bound: &str) -> usize {
    let size = schema[bound].as_u64().unwrap_or_default();
    usize::try_from(size).unwrap_or_default()
}

/// The preferred number, or the bound that is closest to it.
fn number(schema: &Value) -> i64 {
    let bound = |name: &str, exclusive: &str, inside: i64| {
        let bound = schema[name].as_i64()?;
        Some(match schema[exclusive] == true {
            true => bound.saturating_add(inside),
            false => bound,
        })
    };
    let above = bound("minimum", "exclusiveMinimum", 1).map_or(NUMBER, |least| NUMBER.max(least));
    bound("maximum", "exclusiveMaximum", -1).map_or(above, |most| above.min(most))
}

fn text(schema: &Value) -> String {
    let known = match schema["format"].as_str() {
        Some("date-time") => Some("2026-01-01T00:00:00Z"),
        Some("date") => Some("2026-01-01"),
        Some("duration") => Some("1m"),
        Some("email") => Some("user@example.com"),
        Some("hostname") => Some("example.com"),
        Some("ipv4" | "ip") => Some("192.0.2.1"),
        Some("ipv6") => Some("2001:db8::1"),
        Some("cidr") => Some("192.0.2.0/24"),
        Some("uri" | "url") => Some("https://example.com"),
        Some("uuid") => Some("00000000-0000-4000-8000-000000000000"),
        Some("byte") => Some("ZXhhbXBsZQ=="),
        _ => None,
    };
    if let Some(known) = known {
        return known.to_owned();
    }
    let mut text = TEXT.to_owned();
    while text.len() < size(schema, "minLength") {
        text.push('e');
    }
    if schema.get("maxLength").is_some() {
        text.truncate(size(schema, "maxLength"));
    }
    text
}

/// An object of a kind: its required fields, and a `spec` if it has one.
pub(super) fn object(api_version: &str, kind: &str, schema: &Value) -> Value {
    let mut object = fields(schema);
    if let Some(spec) = schema.pointer("/properties/spec") {
        object["spec"] = value(spec);
    }
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    // The controller writes the status, even if it is required.
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object["metadata"] = json!({ "name": "first" });
    object
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_default(json!({"type": "string", "default": "a"}), json!("a"))]
    #[case::an_enum(json!({"type": "string", "enum": ["b", "c"]}), json!("b"))]
    #[case::a_number(json!({"type": "integer", "minimum": 0, "maximum": 100}), json!(3))]
    #[case::a_large_number(json!({"type": "integer", "minimum": 1024, "exclusiveMinimum": true}), json!(1025))]
    #[case::a_small_number(json!({"type": "number", "maximum": 1}), json!(1))]
    #[case::a_number_or_text(json!({"x-kubernetes-int-or-string": true}), json!(3))]
    #[case::a_switch(json!({"type": "boolean"}), json!(true))]
    #[case::a_long_text(json!({"type": "string", "minLength": 9}), json!("exampleee"))]
    #[case::a_short_text(json!({"type": "string", "maxLength": 2}), json!("ex"))]
    #[case::a_time(json!({"type": "string", "format": "date-time"}), json!("2026-01-01T00:00:00Z"))]
    #[case::a_list(json!({"type": "array", "minItems": 2, "items": {"type": "boolean"}}), json!([true, true]))]
    #[case::an_empty_list(json!({"type": "array", "items": {"type": "boolean"}}), json!([]))]
    #[case::required_fields(
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
        json!({"a": 3})
    )]
    #[case::any_fields(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({}))]
    fn a_schema_has_a_value(#[case] schema: Value, #[case] expected: Value) {
        assert_eq!(value(&schema), expected);
    }

    #[test]
    fn an_object_has_a_spec_and_no_status() {
        let size = json!({"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}});
        let schema = json!({"type": "object", "required": ["status"], "properties": {"spec": size, "status": size}});
        let expected = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "first"}, "spec": {"size": 3},
        });
        assert_eq!(object("example.com/v1", "Widget", &schema), expected);
    }
}
