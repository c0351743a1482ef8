//! Values of JSON without a schema.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{Key, Map, Value};

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
