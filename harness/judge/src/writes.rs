//! Texts of what a write changes, with old and new values and the writer, if that is certain.

use mcm_api::keys;
use scenario::shortened;
use serde_json::{Map, Value};

use crate::object::text;
use crate::workloads::condition;

/// The maximum number of characters of a value in a text.
const MOST_CHARACTERS: usize = 60;

/// The change of a field in words.
pub fn change(field: &str, old: &Value, new: &Value) -> String {
    match (old, new) {
        (Value::Null, new) => format!("{field}: {}", shown(new)),
        (old, Value::Null) => format!("{field} removed (was {})", shown(old)),
        (old, new) => format!("{field}: {} -> {}", shown(old), shown(new)),
    }
}

/// A value in a text; a long one is cut.
pub fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    shortened(&text, MOST_CHARACTERS).into_owned()
}

/// The changed annotations of an object, the number of replicas that it wants, and the condition Preserved of a Node, each
/// with the writer. Nothing is said about an object that is new.
pub(crate) fn describe(what: &str, old: Option<&Value>, new: &Value) -> Vec<String> {
    let Some(old) = old else { return Vec::new() };
    let mut changes = annotations(old, new);
    let (was, is) = (&old["spec"]["replicas"], &new["spec"]["replicas"]);
    if was != is {
        changes.push(change("replicas", was, is));
    }
    let preserved = |object| condition(object, keys::PRESERVED_CONDITION).map(|found| text(found, "/status"));
    let (was, is) = (preserved(old), preserved(new));
    if was != is {
        let value = |of: Option<&str>| of.map(Value::from).unwrap_or_default();
        changes.push(change(keys::PRESERVED_CONDITION, &value(was), &value(is)));
    }
    let by = writer(old, new)
        .map(|writer| format!(" by {writer}"))
        .unwrap_or_default();
    changes
        .into_iter()
        .map(|change| format!("{what} {change}{by}"))
        .collect()
}

fn annotations(old: &Value, new: &Value) -> Vec<String> {
    let all = |object: &Value| {
        object["metadata"]["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    let (was, is) = (all(old), all(new));
    let mut names: Vec<&String> = was.keys().chain(is.keys()).collect();
    names.sort();
    names.dedup();
    let value = |of: &Map<String, Value>, name: &str| of.get(name).cloned().unwrap_or_default();
    let changed = names
        .into_iter()
        .filter(|name| was.get(*name) != is.get(*name) && !is_copy(name));
    changed
        .map(|name| change(&format!("annotation {name}"), &value(&was, name), &value(&is, name)))
        .collect()
}

/// Whether an annotation is a controller's copy of what it applied last, which only repeats the change.
fn is_copy(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.starts_with("last-applied")
}

/// The field manager of a write: the only one whose entry is new or has a newer time. `None`: it is not certain.
pub(crate) fn writer<'a>(old: &Value, new: &'a Value) -> Option<&'a str> {
    let id =
        |entry: &Value| ["/manager", "/operation", "/subresource", "/time"].map(|field| text(entry, field).to_owned());
    let known = old.pointer("/metadata/managedFields").and_then(Value::as_array);
    let known: Vec<_> = known.into_iter().flatten().map(id).collect();
    let entries = new.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let mut written = entries.iter().filter(|entry| !known.contains(&id(entry)));
    let writer = written.next()?;
    written.next().is_none().then(|| text(writer, "/manager"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotation: Option<&str>, managers: &[(&str, &str)]) -> Value {
        let managers: Vec<Value> = managers
            .iter()
            .map(|(manager, time)| json!({ "manager": manager, "operation": "Update", "time": time }))
            .collect();
        let mut object = json!({ "metadata": { "managedFields": managers }, "spec": { "replicas": 3 } });
        if let Some(value) = annotation {
            object["metadata"]["annotations"] = json!({ "preserve": value });
        }
        object
    }

    #[test]
    fn a_removed_annotation_has_its_value_and_its_writer() {
        let old = object(Some("when-failed"), &[("user", "t1"), ("mcm", "t1")]);
        let new = object(None, &[("user", "t1"), ("mcm", "t2")]);
        assert_eq!(
            describe("machine m", Some(&old), &new),
            ["machine m annotation preserve removed (was when-failed) by mcm"]
        );
    }

    #[test]
    fn a_writer_that_is_not_certain_is_not_named() {
        let old = object(None, &[("user", "t1"), ("mcm", "t1")]);
        let mut new = object(None, &[("user", "t2"), ("mcm", "t2")]);
        new["spec"]["replicas"] = json!(0);
        assert_eq!(
            describe("machineset s", Some(&old), &new),
            ["machineset s replicas: 3 -> 0"]
        );
        assert!(describe("machineset s", None, &new).is_empty());
    }

    #[test]
    fn copies_of_what_was_applied_are_left_out() {
        let mut new = object(None, &[]);
        new["metadata"]["annotations"] = json!({ "a.b/last-applied-providerspec": "{}" });
        assert!(describe("machine m", Some(&object(None, &[])), &new).is_empty());
    }

    #[test]
    fn a_new_condition_preserved_is_said() {
        let old = json!({});
        let new = json!({ "status": { "conditions": [{ "type": "Preserved", "status": "True" }] } });
        assert_eq!(describe("node n", Some(&old), &new), ["node n Preserved: True"]);
        assert_eq!(shown(&json!("x".repeat(70))).chars().count(), 61);
    }
}
