//! Changes of objects as JSON merge patches (RFC 7386), limited in size.

use serde_json::{Map, Value, json};

/// The maximum size of a change, in bytes of JSON.
pub(crate) const MOST_BYTES: usize = 4096;
/// Fields of `metadata` that change with every write and say nothing about the object.
const NOISE: [&str; 2] = ["managedFields", "resourceVersion"];
/// The field of a condition that changes with every heartbeat of a kubelet.
const HEARTBEAT: &str = "lastHeartbeatTime";

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Diff {
    /// The merge patch.
    pub(crate) patch: Value,
    /// Whether parts were left out.
    pub(crate) cut: bool,
}

/// The change from `old` to `new`. `None`: only noise differs.
pub(crate) fn between(old: Option<&Value>, new: &Value) -> Option<Diff> {
    let empty = Value::Object(Map::new());
    let patch = merge_patch(old.unwrap_or(&empty), new, 0)?;
    let (patch, cut) = limited(patch, MOST_BYTES);
    Some(Diff { patch, cut })
}

/// The paths of the changed fields, two levels deep: `status.conditions`, `spec.unschedulable`.
pub(crate) fn paths(patch: &Value) -> Vec<String> {
    let Value::Object(fields) = patch else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Object(below) if !below.is_empty() => paths.extend(below.keys().map(|key| format!("{name}.{key}"))),
            _ => paths.push(name.clone()),
        }
    }
    paths
}

/// The merge patch from `old` to `new` at a depth below the object; `None`: they do not differ.
fn merge_patch(old: &Value, new: &Value, depth: usize) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (!same(old, new)).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        if depth == 1 && NOISE.contains(&name.as_str()) {
            continue;
        }
        match (old.get(name), value) {
            (Some(before), _) => {
                if let Some(change) = merge_patch(before, value, depth + 1) {
                    patch.insert(name.clone(), change);
                }
            }
            // A merge patch cannot add a null.
            (None, Value::Null) => {}
            (None, Value::Object(_)) => {
                let empty = Value::Object(Map::new());
                let added = merge_patch(&empty, value, depth + 1);
                patch.insert(name.clone(), added.unwrap_or(empty));
            }
            (None, value) => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether two values are equal, apart from the times of heartbeats.
fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        (Value::Object(old), Value::Object(new)) => {
            let differs = |(name, value): (&String, &Value)| {
                name != HEARTBEAT && !old.get(name).is_some_and(|before| same(before, value))
            };
            old.len() == new.len() && !new.iter().any(differs)
        }
        _ => old == new,
    }
}

/// Leaves out the largest parts of a value until it has at most `most` bytes. Whether any was left out.
fn limited(value: Value, most: usize) -> (Value, bool) {
    let size = size(&value);
    if size <= most {
        return (value, false);
    }
    let left_out = json!(format!("({size} bytes left out)"));
    let Value::Object(fields) = value else {
        return (left_out, true);
    };
    // The smallest fields first; the larger ones share the remaining bytes.
    let mut by_size: Vec<(usize, String, Value)> = fields
        .into_iter()
        .map(|(name, value)| (self::size(&value), name, value))
        .collect();
    by_size.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    let mut left = most;
    let mut limited_fields = Map::new();
    let mut fields_left = by_size.len();
    for (_, name, value) in by_size {
        let share = left / fields_left.max(1);
        let (value, _) = limited(value, share.saturating_sub(name.len() + 4));
        left = left.saturating_sub(self::size(&value) + name.len() + 4);
        fields_left -= 1;
        limited_fields.insert(name, value);
    }
    let limited_fields = Value::Object(limited_fields);
    // The names alone can be too much.
    if self::size(&limited_fields) > most {
        return (left_out, true);
    }
    (limited_fields, true)
}

/// The size of a value as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(name, value)| name.len() + 4 + size(value))
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a merge patch, as RFC 7386 defines it.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(fields) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, value) in fields {
            let target = target.as_object_mut().unwrap();
            match value {
                Value::Null => drop(target.remove(name)),
                value => apply(target.entry(name.clone()).or_insert(Value::Null), value),
            }
        }
    }

    #[test]
    fn a_change_applied_to_the_old_object_gives_the_new_one() {
        let old = json!({ "metadata": { "name": "m", "labels": { "a": "1", "b": "2" } }, "spec": { "list": [1, 2] } });
        let new = json!({ "metadata": { "name": "m", "labels": { "b": "3" } }, "spec": { "list": [1] }, "status": { "empty": {}, "phase": "Running" } });
        let mut changed = old.clone();
        apply(&mut changed, &between(Some(&old), &new).unwrap().patch);
        assert_eq!(changed, new);
        let mut created = json!({});
        apply(&mut created, &between(None, &new).unwrap().patch);
        assert_eq!(created, new);
    }

    #[test]
    fn heartbeats_and_resource_versions_are_no_change() {
        let node = |time: &str, version: &str| {
            json!({
                "metadata": { "resourceVersion": version },
                "status": { "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": time }] },
            })
        };
        assert_eq!(between(Some(&node("1", "1")), &node("2", "2")), None);
    }

    #[test]
    fn a_large_change_keeps_its_small_fields() {
        let new = json!({ "status": { "phase": "Running", "text": "x".repeat(10_000) }, "spec": { "replicas": 3 } });
        let diff = between(None, &new).unwrap();
        assert!(diff.cut && size(&diff.patch) <= MOST_BYTES, "{}", diff.patch);
        assert_eq!(diff.patch["status"]["phase"], "Running");
        assert_eq!(diff.patch["spec"]["replicas"], 3);
        assert_eq!(diff.patch["status"]["text"], "(10002 bytes left out)");
    }

    #[test]
    fn a_change_of_many_small_fields_is_limited() {
        let data: Map<String, Value> = (0..6_000).map(|number| (format!("key-{number}"), json!("v"))).collect();
        let new = json!({ "metadata": { "name": "m" }, "data": data });
        let diff = between(None, &new).unwrap();
        assert!(
            diff.cut && size(&diff.patch) <= MOST_BYTES,
            "{} bytes",
            size(&diff.patch)
        );
        assert_eq!(diff.patch["metadata"]["name"], "m");
    }

    #[test]
    fn the_changed_fields_are_named() {
        let patch = json!({ "status": { "conditions": [] }, "spec": null });
        assert_eq!(paths(&patch), ["spec", "status.conditions"]);
    }
}
