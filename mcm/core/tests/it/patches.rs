//! JSON merge patches (RFC 7386) as an API server applies them. They are written anew here, so that a mistake in those of
//! the product is not made twice.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The object after the patch.
pub fn merged<T: Serialize + DeserializeOwned>(object: &T, patch: &Value) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
