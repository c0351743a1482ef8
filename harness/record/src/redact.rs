//! Removes the data of Secrets from documents.

use serde_json::{Value, json};

/// The fields of a Secret with its data.
const DATA: [&str; 2] = ["data", "stringData"];
/// What takes the place of each value.
const REMOVED: &str = "(removed)";

/// A document without the data of the Secrets in it: objects of that kind, and changes of them.
#[must_use]
pub fn without_secrets(mut document: Value) -> Value {
    remove(&mut document, false);
    document
}

fn remove(value: &mut Value, in_secret: bool) {
    match value {
        Value::Object(fields) => {
            let in_secret = in_secret || fields.get("kind").is_some_and(|kind| kind == "Secret");
            for (name, value) in fields.iter_mut() {
                match in_secret && DATA.contains(&name.as_str()) {
                    true => remove_all(value),
                    false => remove(value, in_secret),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, in_secret)),
        Value::String(text) if in_secret && is_copy(text) => *text = REMOVED.to_owned(),
        _ => {}
    }
}

/// Whether a text in a Secret can be a copy of it, such as the annotation of `kubectl apply`.
#[must_use]
pub fn is_copy(text: &str) -> bool {
    ["\"data\"", "data:", "stringData"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Replaces every value below, and keeps the names.
fn remove_all(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(remove_all),
        Value::Array(items) => items.iter_mut().for_each(remove_all),
        Value::Null => {}
        value => *value = json!(REMOVED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_lose_their_data_and_other_objects_do_not() {
        let document = json!({ "steps": [
            { "apply": { "object": { "kind": "Secret", "metadata": { "name": "cloud" }, "stringData": { "apiToken": "planted" } } } },
            { "patch": { "kind": "Secret", "name": "cloud", "merge": { "data": { "apiToken": "cGxhbnRlZA==" } } } },
            { "apply": { "object": { "kind": "ConfigMap", "data": { "color": "blue" } } } },
        ] });
        let text = without_secrets(document).to_string();
        assert!(!text.contains("planted") && !text.contains("cGxhbnRlZA=="), "{text}");
        assert!(text.contains("apiToken") && text.contains("blue"), "{text}");
    }

    #[test]
    fn a_copy_of_a_secret_in_an_annotation_is_removed() {
        for field in ["stringData", "data"] {
            let copy = format!(r#"{{"kind":"Secret","{field}":{{"apiToken":"planted"}}}}"#);
            let document = json!({ "kind": "Secret", "metadata": { "annotations": { "last-applied": copy } } });
            assert!(!without_secrets(document).to_string().contains("planted"), "{field}");
        }
    }
}
