//! Validates objects against schemas as an API server does: it drops unknown fields and rejects invalid values.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

/// The paths in `value` that an API server would drop, and those that it would reject.
pub fn violations(schema: &JSONSchemaProps, value: &Value, path: &str) -> Vec<String> {
    let wrong = |what: &str| vec![format!("{path}: {what}")];
    match (value, schema.type_.as_deref()) {
        (Value::Object(fields), Some("object")) => {
            let required = schema
                .required
                .iter()
                .flatten()
                .filter(|name| !fields.contains_key(*name));
            let missing = required.map(|name| format!("{path}.{name}: is required"));
            let known = schema.properties.as_ref();
            let inner = fields.iter().flat_map(|(name, field)| {
                let path = format!("{path}.{name}");
                match (known.and_then(|known| known.get(name)), &schema.additional_properties) {
                    (Some(schema), _) => violations(schema, field, &path),
                    (None, Some(JSONSchemaPropsOrBool::Schema(schema))) => violations(schema, field, &path),
                    _ if schema.x_kubernetes_preserve_unknown_fields == Some(true) || path == ".metadata.labels" => {
                        vec![]
                    }
                    _ => vec![format!("{path}: is dropped")],
                }
            });
            missing.chain(inner).collect()
        }
        (Value::Array(items), Some("array")) => match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(schema)) => items
                .iter()
                .flat_map(|item| violations(schema, item, &format!("{path}[]")))
                .collect(),
            _ => wrong("the list has no schema"),
        },
        (Value::String(text), Some("string")) => match &schema.pattern {
            Some(pattern) if pattern.contains("ns|us") && text.parse::<mcm_api::GoDuration>().is_err() => {
                wrong("is not a duration")
            }
            _ => vec![],
        },
        (Value::Number(_), Some("integer")) | (Value::Bool(_), Some("boolean")) => vec![],
        (Value::Number(_) | Value::String(_), None) if schema.x_kubernetes_int_or_string == Some(true) => vec![],
        (other, type_) => wrong(&format!(
            "{other} is not a valid {}",
            type_.unwrap_or("value of this schema")
        )),
    }
}
