//! The text of a change of an object: which fields get which values.

use std::borrow::Cow;

use serde_json::Value;

use crate::shortened;

/// The maximum number of fields in the text.
const MAX_FIELDS: usize = 4;
/// The maximum length of a value in characters.
const MAX_VALUE: usize = 60;

/// The fields that a merge patch sets and removes: `spec.replicas = 3, remove metadata.labels.zone`. Values of Secrets are
/// left out.
pub(super) fn fields(kind: &str, change: &Value) -> String {
    let mut all = Vec::new();
    collect(change, String::new(), kind != "Secret", &mut all);
    let more = all.len().saturating_sub(MAX_FIELDS);
    all.truncate(MAX_FIELDS);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}

/// The beginning of a value.
pub(super) fn value(value: &str) -> Cow<'_, str> {
    shortened(value, MAX_VALUE)
}

fn collect(change: &Value, path: String, with_values: bool, all: &mut Vec<String>) {
    match change {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                collect(field, joined(&path, name), with_values, all);
            }
        }
        Value::Null => all.push(format!("remove {path}")),
        _ if !with_values => all.push(format!("{path} = …")),
        Value::String(text) => all.push(format!("{path} = {}", value(text))),
        other => all.push(format!("{path} = {}", value(&other.to_string()))),
    }
}

/// A path with a further name; names with dots are quoted.
fn joined(path: &str, name: &str) -> String {
    match (path, name.contains('.')) {
        ("", false) => name.to_owned(),
        ("", true) => format!("[{name:?}]"),
        (path, false) => format!("{path}.{name}"),
        (path, true) => format!("{path}[{name:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::value("MachineSet", json!({ "spec": { "replicas": 3 } }), "spec.replicas = 3")]
    #[case::removed("Node", json!({ "metadata": { "labels": { "zone": null } } }), "remove metadata.labels.zone")]
    #[case::name_with_dots(
        "Machine",
        json!({ "metadata": { "annotations": { "a.b/c": "now" } } }),
        "metadata.annotations[\"a.b/c\"] = now"
    )]
    #[case::list("Node", json!({ "spec": { "taints": [] } }), "spec.taints = []")]
    #[case::empty_object("Node", json!({ "spec": {} }), "spec = {}")]
    #[case::many(
        "ConfigMap",
        json!({ "data": { "a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6" } }),
        "data.a = 1, data.b = 2, data.c = 3, data.d = 4, 2 more"
    )]
    #[case::secret("Secret", json!({ "stringData": { "password": "x" } }), "stringData.password = …")]
    #[case::long("ConfigMap", json!({ "data": { "a": "ä".repeat(61) } }), &format!("data.a = {}…", "ä".repeat(60)))]
    fn a_change_is_described_by_its_fields(#[case] kind: &str, #[case] change: Value, #[case] expected: &str) {
        assert_eq!(fields(kind, &change), expected);
    }
}
