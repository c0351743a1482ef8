//! Schemas of kinds in OpenAPI form: which fields are at a position, and which types their values have.

use apiserver::types;
use serde_json::Value;

use crate::Problem;
use crate::field_path::selector;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The prefix of references between the schemas of built-in types.
const REFERENCE: &str = "#/components/schemas/";

/// The parts of a path such as `spec.containers[0].name`.
pub(super) fn segments(path: &str) -> Vec<String> {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// What is at a position in a schema.
pub(super) enum Found {
    /// A schema.
    Node(Node),
    /// Any value is valid here.
    Anything,
    /// No value is valid here.
    Unknown {
        /// The part of the path.
        part: String,
        /// The valid ones.
        fields: Vec<String>,
    },
}

/// A schema in OpenAPI form, of a built-in type or of a definition.
#[derive(Clone, Debug)]
pub(super) struct Node(Value);

impl Node {
    /// The schema of a built-in type.
    pub(super) fn of_type(name: &str) -> Option<Self> {
        types::definition(name).map(Self)
    }

    /// The schema of a custom kind, with the fields that every object has.
    pub(super) fn of_custom(schema: &Value) -> Option<Self> {
        let mut schema = schema.clone();
        let properties = schema.get_mut("properties")?.as_object_mut()?;
        for field in ["apiVersion", "kind"] {
            properties.insert(field.to_owned(), serde_json::json!({ "type": "string" }));
        }
        let metadata = serde_json::json!({ "$ref": format!("{REFERENCE}{OBJECT_META}") });
        properties.insert("metadata".to_owned(), metadata);
        Some(Self(schema))
    }

    /// The schema that it refers to, or itself.
    fn resolved(&self) -> Option<Self> {
        match self.0.get("$ref").and_then(Value::as_str) {
            Some(reference) => Self::of_type(reference.strip_prefix(REFERENCE)?),
            None => Some(self.clone()),
        }
    }

    /// The names of its fields.
    pub(super) fn fields(&self) -> Vec<String> {
        let resolved = self.resolved().unwrap_or_else(|| self.clone());
        let properties = resolved.0.get("properties").and_then(Value::as_object);
        properties.map_or_else(Vec::new, |properties| properties.keys().cloned().collect())
    }

    /// The schema of a field, a map's value or an array's item.
    pub(super) fn member(&self, part: &str) -> Found {
        let Some(Self(schema)) = self.resolved() else {
            return Found::Anything;
        };
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return Found::Anything;
        }
        if let Some(field) = schema.get("properties").and_then(|properties| properties.get(part)) {
            return Found::Node(Self(field.clone()));
        }
        match &schema["additionalProperties"] {
            Value::Object(values) => return Found::Node(Self(values.clone().into())),
            Value::Bool(true) => return Found::Anything,
            _ => {}
        }
        let unknown = || Found::Unknown {
            part: part.to_owned(),
            fields: self.fields(),
        };
        match schema["type"].as_str() {
            Some("array") => {
                let item = Self(schema["items"].clone());
                match selector(part).map(|(field, _)| item.member(field)) {
                    Some(wrong @ Found::Unknown { .. }) => wrong,
                    None if !part.bytes().all(|byte| byte.is_ascii_digit()) => unknown(),
                    Some(_) | None => Found::Node(item),
                }
            }
            Some("object") if schema.get("properties").is_none() => Found::Anything,
            Some(_) => unknown(),
            // Any JSON, or a text or number.
            None => Found::Anything,
        }
    }

    /// The first value whose type differs from the schema's, with its path below `path` and the expected type. A null is
    /// valid: in a change it removes the field.
    pub(super) fn mismatch(&self, value: &Value, path: &str) -> Option<Problem> {
        let Self(schema) = self.resolved()?;
        if value.is_null() || schema["x-kubernetes-int-or-string"] == true {
            return None;
        }
        let wrong = |expected: &str, hint: String| {
            Some((
                path.to_owned(),
                format!("expected {expected}, not {}{hint}", described(value)),
            ))
        };
        match (schema["type"].as_str(), value) {
            (Some("object"), Value::Object(fields)) => fields.iter().find_map(|(name, value)| {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                match self.member(name) {
                    Found::Node(node) => node.mismatch(value, &path),
                    Found::Anything | Found::Unknown { .. } => None,
                }
            }),
            (Some("array"), Value::Array(items)) => {
                let node = Self(schema["items"].clone());
                let mut numbered = items.iter().enumerate();
                numbered.find_map(|(index, item)| node.mismatch(item, &format!("{path}[{index}]")))
            }
            (Some("string"), Value::Number(_) | Value::Bool(_)) => wrong("a text", format!("; write \"{value}\"")),
            (Some("string"), Value::Array(_) | Value::Object(_)) => wrong("a text", String::new()),
            (Some("integer"), Value::String(text)) if text.parse::<i64>().is_ok() => {
                wrong("a whole number", format!("; write {text} without quotes"))
            }
            (Some("integer"), value) if !value.is_i64() && !value.is_u64() => wrong("a whole number", String::new()),
            (Some("number"), value) if !value.is_number() => wrong("a number", String::new()),
            (Some("boolean"), value) if !value.is_boolean() => wrong("true or false", String::new()),
            (Some("object"), value) if !value.is_object() => wrong("fields", String::new()),
            (Some("array"), value) if !value.is_array() => wrong("a list", String::new()),
            _ => None,
        }
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::String(_) => format!("the text {value}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "fields".to_owned(),
        other => other.to_string(),
    }
}
