//! JSON merge patches (RFC 7396) as an API server applies them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The object after the patch.
pub fn merged<T: Serialize + DeserializeOwned>(object: &T, patch: &Value) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    json_patch::merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}
