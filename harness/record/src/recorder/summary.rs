//! Describes a write that the narrative does not mention: which fields it changes, with old and new values.

use std::collections::BTreeSet;

use jiff::Timestamp;
use judge::object::text;
use judge::writes::{change, shown};
use scenario::kinds::Kind;
use serde_json::Value;

use crate::diff;

/// The number of changed fields that a summary names.
const MOST_FIELDS: usize = 3;
/// The fields of conditions and operations that change with every write of them.
const TIMES: [&str; 3] = ["lastUpdateTime", "lastTransitionTime", "lastHeartbeatTime"];

/// Describes a write. `before` is the object's previous version, and `patch` the change as a merge patch.
pub(super) fn summary(kind: &Kind, name: &str, before: Option<&Value>, patch: &Value) -> String {
    let what = format!("{} {name}", kind.kind.to_lowercase());
    let Some(before) = before else {
        return format!("{what} exists");
    };
    let mut fields = Vec::new();
    collect(&mut Vec::new(), before, patch, &mut fields);
    if fields.is_empty() {
        return format!("{what} changes {}", diff::paths(patch).join(", "));
    }
    let more = match fields.len().saturating_sub(MOST_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    fields.truncate(MOST_FIELDS);
    format!("{what} {}{more}", fields.join(", "))
}

/// Adds a text for each changed field of a merge patch; times are left out.
fn collect<'a>(path: &mut Vec<&'a str>, before: &Value, patch: &'a Value, fields: &mut Vec<String>) {
    match patch {
        Value::Object(parts) if !parts.is_empty() => {
            for (name, part) in parts {
                path.push(name);
                collect(path, &before[name.as_str()], part, fields);
                path.pop();
            }
        }
        Value::String(value) if value.parse::<Timestamp>().is_ok() => {}
        _ if path.last().is_some_and(|name| TIMES.contains(name)) => {}
        Value::Array(after) => elements(path, before, after, fields),
        _ => fields.push(change(&label(path), before, patch)),
    }
}

/// The name of a field; annotations and labels have their keys, which contain dots.
fn label(path: &[&str]) -> String {
    match path {
        ["metadata", "annotations", key] => format!("annotation {key}"),
        ["metadata", "labels", key] => format!("label {key}"),
        path => path.join("."),
    }
}

/// Adds a text for each element of a list that is added, removed or changed.
fn elements(path: &[&str], before: &Value, after: &[Value], fields: &mut Vec<String>) {
    let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
    let (list, known) = (label(path), fields.len());
    for new in after {
        let id = identity(new);
        let old = before.iter().find(|old| identity(old) == id);
        let status = |value: &Value| Value::from(text(value, "/status"));
        match old {
            None => fields.push(format!("{list} + {}", described(new, &id))),
            Some(old) if status(old) != status(new) => {
                fields.push(change(&format!("{list} {id}"), &status(old), &status(new)))
            }
            Some(old) => {
                let parts = changed_parts(old, new);
                fields.extend((!parts.is_empty()).then(|| format!("{list} {id}: other {}", parts.join(", "))));
            }
        }
    }
    for old in before {
        let id = identity(old);
        if !after.iter().any(|new| identity(new) == id) {
            fields.push(format!("{list} - {id}"));
        }
    }
    if fields.len() == known {
        let moved = before.iter().map(identity).ne(after.iter().map(identity));
        fields.push(if moved { format!("{list}: other order") } else { list });
    }
}

/// The names of the fields in which two versions of an element differ, without times.
fn changed_parts(old: &Value, new: &Value) -> Vec<String> {
    let names = |value: &Value| {
        value
            .as_object()
            .map(|fields| fields.keys().cloned().collect::<BTreeSet<_>>())
    };
    let (old_names, new_names) = (names(old).unwrap_or_default(), names(new).unwrap_or_default());
    let differs = |name: &&String| !TIMES.contains(&name.as_str()) && old.get(name.as_str()) != new.get(name.as_str());
    old_names.union(&new_names).filter(differs).cloned().collect()
}

/// A new element: a condition with its status.
fn described(element: &Value, id: &str) -> String {
    match text(element, "/status") {
        "" => id.to_owned(),
        status => format!("{id} {status}"),
    }
}

/// What distinguishes an element of a list from others: the type of a condition, key and effect of a taint, a name.
fn identity(element: &Value) -> String {
    let field = |name: &str| element.get(name).and_then(Value::as_str);
    match (field("type"), field("key"), field("name")) {
        (Some(condition), _, _) => condition.to_owned(),
        (None, Some(key), _) => format!("{key}:{}", field("effect").unwrap_or_default()),
        (None, None, Some(name)) => format!("{} {name}", field("kind").unwrap_or_default())
            .trim()
            .to_owned(),
        (None, None, None) => shown(element),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use scenario::kinds;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::an_annotation_is_removed(
        json!({ "metadata": { "annotations": { "a.b/preserve": "when-failed" } } }), json!({ "metadata": { "annotations": {} } }),
        "machine m annotation a.b/preserve removed (was when-failed)"
    )]
    #[case::a_number_changes(json!({ "spec": { "replicas": 3 } }), json!({ "spec": { "replicas": 1 } }), "machine m spec.replicas: 3 -> 1")]
    #[case::a_condition_and_its_times(
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z" }] } }),
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": "2030-01-01T00:00:01Z" }] } }),
        "machine m status.conditions Ready: True -> False"
    )]
    #[case::taints_and_finalizers(
        json!({ "metadata": { "finalizers": ["f"] }, "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] } }),
        json!({ "metadata": {}, "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } }),
        "machine m metadata.finalizers removed (was [\"f\"]), spec.taints + b:NoExecute, spec.taints - a:NoSchedule"
    )]
    #[case::another_order(
        json!({ "status": { "targets": ["a", "b", "c"] } }), json!({ "status": { "targets": ["c", "a", "b"] } }),
        "machine m status.targets: other order"
    )]
    #[case::the_message_of_a_condition(
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "message": "a" }, { "type": "Other", "status": "True" }] } }),
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "message": "b" }, { "type": "Other", "status": "True" }] } }),
        "machine m status.conditions Ready: other message"
    )]
    #[case::only_a_time(
        json!({ "status": { "lastUpdateTime": "2030-01-01T00:00:00Z" } }), json!({ "status": { "lastUpdateTime": "2030-01-01T00:00:01Z" } }),
        "machine m changes status.lastUpdateTime"
    )]
    #[case::many_fields(json!({}), json!({ "spec": { "a": 1, "b": 2, "c": 3, "d": 4 } }), "machine m spec.a: 1, spec.b: 2, spec.c: 3 and 1 more")]
    fn a_summary_has_the_changed_values(#[case] before: Value, #[case] after: Value, #[case] expected: &str) {
        let diff = diff::between(Some(&before), &after).unwrap();
        let kind = kinds::find("Machine").unwrap();
        assert_eq!(summary(kind, "m", Some(&before), &diff.patch), expected);
    }
}
