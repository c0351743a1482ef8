//! Reads and defaults fields of an object by JSON pointer.

use serde_json::{Map, Value};

use crate::status::FieldError;

/// A string; empty if absent.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list; empty if absent.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// A mutable list; empty if absent.
pub(super) fn items_mut<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value
        .pointer_mut(pointer)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
}

/// The members of an object; none if absent.
pub(super) fn members<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    let members = value.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

/// Whether a value is set: not missing, null or an empty string, as Go treats zero values.
pub(super) fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

/// The object at the pointer. Creates missing objects on the path; returns `None` without a change if another value
/// is in the way: the type check reports that.
pub(super) fn object<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    let mut current = value;
    for name in pointer.split('/').skip(1) {
        let member = current.as_object_mut()?.entry(name).or_insert(Value::Null);
        if member.is_null() {
            *member = Value::Object(Map::new());
        }
        current = member;
    }
    current.as_object_mut()
}

/// Sets a field if it is not set.
pub(super) fn default(value: &mut Value, parent: &str, name: &str, default: impl Into<Value>) {
    let Some(members) = object(value, parent) else { return };
    if !is_set(members.get(name)) {
        members.insert(name.to_owned(), default.into());
    }
}

/// Sets a field if it is not set and its parent object exists.
pub(super) fn default_within(value: &mut Value, parent: &str, name: &str, default: impl Into<Value>) {
    if value.pointer(parent).is_some_and(Value::is_object) {
        self::default(value, parent, name, default);
    }
}

/// Whether two values are the same. Missing and empty are the same, as in upstream's comparison.
pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    fn trimmed(value: Option<&Value>) -> Option<&Value> {
        value.filter(|value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        })
    }
    match (trimmed(one), trimmed(other)) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.iter().all(|(name, value)| same(Some(value), other.get(name)))
                && other
                    .keys()
                    .all(|name| one.contains_key(name) || same(None, other.get(name)))
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(Some(one), Some(other)))
        }
        (Some(Value::Object(members)), None) | (None, Some(Value::Object(members))) => {
            members.values().all(|value| same(Some(value), None))
        }
        (one, other) => one == other,
    }
}

/// Reports `field is immutable` if the value has changed.
pub(super) fn immutable(errors: &mut Vec<FieldError>, new: &Value, old: &Value, pointer: &str) {
    if !same(new.pointer(pointer), old.pointer(pointer)) {
        let value = new.pointer(pointer).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(path_of(pointer), value, "field is immutable"));
    }
}

/// Rejects a negative number.
pub(super) fn not_negative(errors: &mut Vec<FieldError>, value: &Value, pointer: &str) {
    if let Some(number) = value
        .pointer(pointer)
        .and_then(Value::as_i64)
        .filter(|number| *number < 0)
    {
        errors.push(FieldError::invalid(
            path_of(pointer),
            number,
            "must be greater than or equal to 0",
        ));
    }
}

/// Rejects a string that is not in `supported`; a missing one is valid.
pub(super) fn one_of(errors: &mut Vec<FieldError>, value: &Value, pointer: &str, path: &str, supported: &[&str]) {
    let found = text(value, pointer);
    if !found.is_empty() && !supported.contains(&found) {
        errors.push(FieldError::not_supported(path, found, supported));
    }
}

/// Converts a pointer to a message path: `/spec/claimRef` becomes `spec.claimRef`.
pub(super) fn path_of(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!(null), json!({}), true)]
    #[case(json!({"a": []}), json!({}), true)]
    #[case(json!({"a": [{"b": ""}]}), json!({"a": [{}]}), true)]
    #[case(json!({"a": false}), json!({}), false)]
    #[case(json!({"a": [1, 2]}), json!({"a": [1]}), false)]
    fn missing_and_empty_are_the_same(#[case] one: Value, #[case] other: Value, #[case] expected: bool) {
        assert_eq!(same(Some(&one), Some(&other)), expected);
        assert_eq!(same(Some(&other), Some(&one)), expected);
    }

    #[test]
    fn a_default_never_replaces_a_value() {
        let mut value = json!({ "spec": { "a": "", "b": "kept", "c": 5 } });
        for name in ["a", "b", "d"] {
            default(&mut value, "/spec", name, "x");
        }
        default(&mut value, "/spec/c", "deeper", "x");
        default_within(&mut value, "/status", "phase", "x");
        assert_eq!(value, json!({ "spec": { "a": "x", "b": "kept", "c": 5, "d": "x" } }));
    }
}
