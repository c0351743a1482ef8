//! JSON merge patches (RFC 7386) from one value to another.

use serde::Serialize;
use serde_json::{Map, Value};

/// The patch from `old` to `new`. Fields that neither has stay unchanged on the server.
pub fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(key.clone(), merge_patch(before, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// The patch between two objects of one kind; `None`: they are equal.
pub fn difference<T: Serialize + PartialEq>(old: &T, new: &T) -> Option<Value> {
    if old == new {
        return None;
    }
    let (old, new) = (serde_json::to_value(old).ok()?, serde_json::to_value(new).ok()?);
    (old != new).then(|| merge_patch(&old, &new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_only_changed_fields_and_null_for_removed_ones() {
        let old = json!({"phase": "Pending", "same": {"a": 1}, "deep": {"gone": 1, "kept": 2}, "list": [1, 2]});
        let new = json!({"same": {"a": 1}, "deep": {"kept": 3}, "list": [2], "more": "x"});
        let patch = json!({"phase": null, "deep": {"gone": null, "kept": 3}, "list": [2], "more": "x"});
        assert_eq!(merge_patch(&old, &new), patch);
    }

    #[test]
    fn equal_objects_need_no_patch() {
        assert_eq!(difference(&[1, 2], &[1, 2]), None);
        assert_eq!(difference(&json!({"a": 1}), &json!({})), Some(json!({"a": null})));
    }
}
