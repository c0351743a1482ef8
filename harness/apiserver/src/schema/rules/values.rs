//! Converts JSON to the values of expressions, according to the schema.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use crate::cel::{self, Value};

/// The value of a JSON value with that schema. Members that the schema does not specify are omitted. The recursion
/// follows the JSON value, whose depth is limited.
pub(super) fn value(json: &Json, schema: &Json, is_resource: bool) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), schema.get("type").and_then(Json::as_str)) {
            (Some(whole), kind) if kind != Some("number") => Value::Int(whole),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => formatted(text, schema.get("format").and_then(Json::as_str)),
        Json::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Json::Null);
            let items: Vec<Value> = items.iter().map(|item| value(item, schema, false)).collect();
            Value::List(items.into())
        }
        Json::Object(members) => object(members, schema, is_resource),
    }
}

fn object(members: &Map<String, Json>, schema: &Json, is_resource: bool) -> Value {
    let mut map = HashMap::new();
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        for (name, member) in members {
            map.insert(name.as_str().into(), value(member, inner, false));
        }
        return Value::Map(cel::Map { map: map.into() });
    }
    for (name, inner) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if let (Some(escaped), Some(member)) = (cel::escape(name), members.get(name)) {
            let embedded = inner.get("x-kubernetes-embedded-resource") == Some(&Json::Bool(true));
            map.insert(escaped.into(), value(member, inner, embedded));
        }
    }
    if is_resource {
        let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().into();
        for name in ["apiVersion", "kind"] {
            map.insert(name.into(), text(members.get(name)));
        }
        let metadata = members.get("metadata");
        let names = ["name", "generateName"].map(|name| (name, metadata.and_then(|metadata| metadata.get(name))));
        let names = names.into_iter().filter(|(_, value)| value.is_some());
        let names: HashMap<cel::Key, Value> = names.map(|(name, value)| (name.into(), text(value))).collect();
        map.insert("metadata".into(), Value::Map(cel::Map { map: names.into() }));
    }
    Value::Map(cel::Map { map: map.into() })
}

/// A text that does not have the format remains a text; validation reports it.
fn formatted(text: &str, format: Option<&str>) -> Value {
    let parsed = match format {
        Some("date-time") => cel::call("timestamp", None, vec![text.into()]).ok(),
        Some("date") => cel::call("timestamp", None, vec![format!("{text}T00:00:00Z").into()]).ok(),
        Some("duration") => cel::call("duration", None, vec![text.into()]).ok(),
        Some("byte") => STANDARD.decode(text).ok().map(Value::from),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}
