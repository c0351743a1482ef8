//! Values of JSON without a schema, and JSON of values.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::evaluate::is_within;
use super::{Key, MAX_REQUEST, Map, Value};

/// The value of a JSON value. The recursion follows the JSON value, whose depth is limited.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect::<Vec<Value>>().into()),
        Json::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| (name.as_str().into(), from_json(member)));
            Value::Map(Map {
                map: members.collect::<HashMap<Key, Value>>().into(),
            })
        }
    }
}

/// The JSON of a value; `None` if it has none, as functions and addresses, or is larger than a request. Parts can occur in
/// a value many times.
pub(crate) fn to_json(value: &Value) -> Option<Json> {
    if is_within(value, MAX_REQUEST) {
        converted(value)
    } else {
        None
    }
}

/// The recursion follows the value, whose depth is limited.
fn converted(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::Float(number) => serde_json::Number::from_f64(*number)?.into(),
        Value::String(text) => text.as_str().into(),
        Value::Bytes(bytes) => STANDARD.encode(bytes.as_slice()).into(),
        Value::List(items) => items.iter().map(converted).collect::<Option<Vec<Json>>>()?.into(),
        Value::Map(map) => {
            let members = map
                .map
                .iter()
                .map(|(key, value)| Some((key.to_string(), converted(value)?)));
            members.collect::<Option<serde_json::Map<String, Json>>>()?.into()
        }
        _ => return None,
    })
}
