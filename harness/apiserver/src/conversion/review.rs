//! The messages between the server and a conversion webhook (`ConversionReview`), and the check of its results.

use serde_json::{Map, Value, json};

use crate::go;
use crate::json;
use crate::syntax;

const GROUP: &str = "apiextensions.k8s.io";

/// The version of the questions to a webhook: the first one of its configuration that is known.
pub(super) fn version(webhook: &Value) -> Option<String> {
    let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
    let known = versions.find(|version| matches!(*version, "v1" | "v1beta1"));
    known.map(str::to_owned)
}

/// Asks to convert objects to a version.
pub(super) fn question((review, uid): (&str, &str), version: &str, objects: &[&mut Value]) -> Value {
    json!({
        "kind": "ConversionReview",
        "apiVersion": format!("{GROUP}/{review}"),
        "request": { "uid": uid, "desiredAPIVersion": version, "objects": objects },
        "response": { "uid": "", "convertedObjects": null, "result": { "metadata": {} } },
    })
}

/// The objects of an answer.
///
/// # Errors
/// What is wrong with the answer.
pub(super) fn answer(body: &[u8], (review, uid): (&str, &str), count: usize) -> Result<Vec<Value>, String> {
    let failed = |why: &str| format!("failed: {why}");
    let body = json::parse(body).map_err(|error| failed(&error.to_string()))?;
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let expected = format!("{GROUP}/{review}");
    let (mut found, mut kind) = (text(&body, "apiVersion"), text(&body, "kind"));
    let is_unnamed = found.is_empty() || kind.is_empty();
    let answered = format!("{}, Kind={kind}", if found.is_empty() { "/" } else { &found });
    // As upstream, a missing name is first taken for the expected one.
    if found.is_empty() {
        found.clone_from(&expected);
    }
    if kind.is_empty() {
        "ConversionReview".clone_into(&mut kind);
    }
    if kind != "ConversionReview" || (found != expected && other_version(&found).is_none()) {
        return Err(failed(&format!(
            "no kind {kind:?} is registered for version {found:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    if let Some(other) = other_version(&found).filter(|_| found != expected) {
        return Err(failed(&format!(
            "converting ({other}.{kind}) to ({review}.{kind}): unknown conversion"
        )));
    }
    if is_unnamed {
        return Err(failed(&format!(
            "expected webhook response of {expected}, Kind=ConversionReview, got {answered}"
        )));
    }
    let Some(response) = body.get("response").filter(|response| response.is_object()) else {
        return Err(failed("no response provided"));
    };
    let found = text(response, "uid");
    if review == "v1" && found != uid {
        return Err(failed(&format!("expected response.uid={uid:?}, got {found:?}")));
    }
    let result = response.get("result").unwrap_or(&Value::Null);
    let status = text(result, "status");
    if status != "Success" {
        return Err(failed(&match text(result, "message").as_str() {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        }));
    }
    let converted = response.get("convertedObjects").and_then(Value::as_array);
    let converted = converted.cloned().unwrap_or_default();
    if converted.len() != count {
        return Err(format!("returned {} objects, expected {count}", converted.len()));
    }
    Ok(converted)
}

/// The version of the review with that `apiVersion`.
fn other_version(api_version: &str) -> Option<&str> {
    let version = api_version.strip_prefix(GROUP)?.strip_prefix('/')?;
    matches!(version, "v1" | "v1beta1").then_some(version)
}

/// Checks that a converted object is the original one in that version, and restores its metadata: a webhook changes
/// labels and annotations only.
///
/// # Errors
/// What is wrong with the object.
pub(super) fn check((original, converted): (&Value, &mut Value), version: &str, kind: &str) -> Result<(), String> {
    let text = |value: &Value, pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let invalid = |why: String| format!("returned invalid object{why}");
    let found = text(converted, "/apiVersion");
    if found != version {
        return Err(invalid(format!(
            " at index 0: invalid groupVersion (expected {version}, received {found})"
        )));
    }
    let found = text(converted, "/kind");
    if found != kind {
        return Err(invalid(format!(
            " at index 0: invalid kind (expected {kind}, received {found})"
        )));
    }
    for (field, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let pointer = format!("/metadata/{field}");
        let (expected, found) = (text(original, &pointer), text(converted, &pointer));
        if expected != found {
            return Err(invalid(format!(": must have the same {word}: {expected} != {found}")));
        }
    }
    restore_metadata(original, converted).map_err(|why| format!("returned invalid metadata: {why}"))
}

/// # Errors
/// What is wrong with the metadata of the converted object.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    // Both have metadata, with the same name.
    let none = Map::new();
    let answered = metadata_of(converted).unwrap_or(&none);
    let mut kept = metadata_of(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match answered.get(field) {
            None | Some(Value::Null) => {
                kept.remove(field);
            }
            Some(Value::Object(texts)) => {
                check_texts(field, texts)?;
                if kept.get(field).and_then(Value::as_object) != Some(texts) {
                    check_syntax(field, texts)?;
                }
                kept.insert(field.to_owned(), Value::Object(texts.clone()));
            }
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    go::type_name(other)
                ));
            }
        }
    }
    converted["metadata"] = kept.into();
    Ok(())
}

fn metadata_of(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

fn check_texts(field: &str, texts: &Map<String, Value>) -> Result<(), String> {
    match texts.iter().find(|(_, text)| !text.is_string()) {
        Some((name, other)) => Err(format!(
            "metadata.{field}[{name}] must be a string, but is {} in converted object",
            go::type_name(other)
        )),
        None => Ok(()),
    }
}

/// Checks labels or annotations that a webhook changed.
fn check_syntax(field: &str, texts: &Map<String, Value>) -> Result<(), String> {
    // Upstream misspells the path of annotations.
    let path = if field == "labels" {
        "metadata.labels"
    } else {
        "metadata.annotation"
    };
    for (key, value) in texts {
        let name = if field == "labels" {
            key.clone()
        } else {
            key.to_lowercase()
        };
        if !syntax::is_qualified_name(&name) {
            return Err(format!(
                "{path}: Invalid value: {key:?}: {}",
                syntax::qualified_name_rule(key)
            ));
        }
        let value = value.as_str().unwrap_or_default();
        if field == "labels" && !syntax::is_label_value(value) {
            return Err(format!("{path}: Invalid value: {value:?}: {}", syntax::LABEL_VALUE));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn original() -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": "w", "namespace": "n", "uid": "u", "generation": 2, "labels": { "a": "b" } },
        })
    }

    fn converted(metadata: Value) -> Value {
        json!({ "apiVersion": "example.com/v2", "kind": "Widget", "metadata": metadata })
    }

    #[test]
    fn a_webhook_changes_labels_and_annotations_only() {
        let metadata =
            json!({ "name": "w", "namespace": "n", "uid": "u", "generation": 7, "annotations": { "c": "d" } });
        let mut converted = converted(metadata);
        check((&original(), &mut converted), "example.com/v2", "Widget").unwrap();
        let expected =
            json!({ "name": "w", "namespace": "n", "uid": "u", "generation": 2, "annotations": { "c": "d" } });
        assert_eq!(converted["metadata"], expected);
    }

    #[rstest]
    #[case(json!({ "name": "x", "namespace": "n", "uid": "u" }), "returned invalid object: must have the same name: w != x")]
    #[case(json!({ "name": "w", "namespace": "n" }), "returned invalid object: must have the same UID: u != ")]
    #[case(
        json!({ "name": "w", "namespace": "n", "uid": "u", "labels": { "a": 1 } }),
        "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"
    )]
    #[case(
        json!({ "name": "w", "namespace": "n", "uid": "u", "labels": ["a"] }),
        "returned invalid metadata: invalid metadata.labels of type []interface {} in converted object"
    )]
    fn other_metadata_is_an_error(#[case] metadata: Value, #[case] expected: &str) {
        let mut converted = converted(metadata);
        let error = check((&original(), &mut converted), "example.com/v2", "Widget").unwrap_err();
        assert_eq!(error, expected);
    }

    #[rstest]
    #[case(json!({ "result": { "status": "Success" }, "uid": "1" }), "returned 0 objects, expected 1")]
    #[case(json!({ "result": { "status": "Success" }, "uid": "2" }), r#"failed: expected response.uid="1", got "2""#)]
    #[case(json!({ "result": { "status": "Failed" }, "uid": "1" }), "failed: response.result.status was 'Failed', not 'Success'")]
    #[case(json!({ "result": { "message": "no" }, "uid": "1" }), "failed: no")]
    #[case(json!(null), "failed: no response provided")]
    fn an_answer_is_checked(#[case] response: Value, #[case] expected: &str) {
        let body = json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response });
        assert_eq!(
            answer(body.to_string().as_bytes(), ("v1", "1"), 1).unwrap_err(),
            expected
        );
    }
}
