//! JSON patch (RFC 6902) with Kubernetes' limits and error codes.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Map, Value};

use crate::status::ApiError;

/// The maximum number of operations.
const MAX_OPERATIONS: usize = 10_000;
/// The maximum size that all `copy` operations together may add, in bytes of JSON.
const COPY_BUDGET: usize = 3 * 1024 * 1024;

/// Applies a list of JSON patch operations; on an error `doc` is unchanged.
///
/// # Errors
/// 400 for a patch that cannot be decoded, 413 for more than 10,000 operations or copies of more than 3 MiB, 422 for
/// an operation that cannot be applied (a failed `test`, a path that does not exist).
pub fn json(doc: &mut Value, patch: &[u8]) -> Result<(), ApiError> {
    let operations: Vec<Value> = serde_json::from_slice(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > MAX_OPERATIONS {
        let got = operations.len();
        return Err(too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}"
        )));
    }
    let mut patched = doc.clone();
    let mut copied = 0;
    for operation in operations {
        let operation: PatchOperation = serde_json::from_value(operation).map_err(|_| rejected())?;
        let operation = match operation {
            // Upstream's replace adds a missing member if its parent exists.
            PatchOperation::Replace(replace) if is_member_of_object(&replace.path, &patched) => {
                PatchOperation::Add(AddOperation {
                    path: replace.path,
                    value: replace.value,
                })
            }
            other => other,
        };
        match &operation {
            // Upstream treats an absent member as null here.
            PatchOperation::Test(test) if test.value.is_null() && test.path.resolve(&patched).is_err() => continue,
            PatchOperation::Copy(copy) => {
                copied += copy.from.resolve(&patched).map_or(0, |value| value.to_string().len());
                if copied > COPY_BUDGET {
                    return Err(too_large(format!(
                        "The copies of a JSON patch may have {COPY_BUDGET} bytes"
                    )));
                }
            }
            _ => {}
        }
        json_patch::patch(&mut patched, std::slice::from_ref(&operation)).map_err(|_| rejected())?;
    }
    *doc = patched;
    Ok(())
}

fn too_large(why: String) -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
}

fn is_member_of_object(path: &PointerBuf, doc: &Value) -> bool {
    path.parent()
        .is_some_and(|parent| parent.resolve(doc).is_ok_and(Value::is_object))
}

/// Like upstream, the error names neither the operation nor the reason.
fn rejected() -> ApiError {
    ApiError {
        details: Some(Value::Object(Map::new())),
        ..ApiError::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn apply(mut doc: Value, patch: &Value) -> Result<Value, ApiError> {
        json(&mut doc, patch.to_string().as_bytes())?;
        Ok(doc)
    }

    #[rstest]
    #[case(json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": [1]}, {"op": "add", "path": "/b/-", "value": 2}]), json!({"a": 1, "b": [1, 2]}))]
    #[case(json!({"a": {"x/y": 1, "m~n": 2}}), json!([{"op": "remove", "path": "/a/x~1y"}, {"op": "replace", "path": "/a/m~0n", "value": 3}]), json!({"a": {"m~n": 3}}))]
    #[case(json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/b", "path": "/c"}]), json!({"b": 1, "c": 1}))]
    #[case(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}, {"op": "test", "path": "/gone", "value": null}]), json!({"a": 1}))]
    fn patches_that_apply(#[case] doc: Value, #[case] patch: Value, #[case] patched: Value) {
        assert_eq!(apply(doc, &patch).unwrap(), patched);
    }

    #[rstest]
    #[case(json!({"op": "add"}), 400)]
    #[case(json!([{"op": "frobnicate", "path": "/a"}]), 422)]
    #[case(json!([{"op": "test", "path": "/a", "value": 2}]), 422)]
    #[case(json!([{"op": "remove", "path": "/b"}]), 422)]
    #[case(json!([{"op": "replace", "path": "/b/c", "value": 1}]), 422)]
    #[case(json!([{"op": "add", "path": "/b/c", "value": 1}]), 422)]
    #[case(Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001]), 413)]
    fn patches_that_do_not_apply(#[case] patch: Value, #[case] code: u16) {
        let mut doc = json!({"a": 1});
        assert_eq!(json(&mut doc, patch.to_string().as_bytes()).unwrap_err().code, code);
        assert_eq!(doc, json!({"a": 1}));
    }

    #[test]
    fn a_patch_is_applied_completely_or_not_at_all() {
        let mut doc = json!({"a": 1});
        let patch = br#"[{"op":"replace","path":"/a","value":2},{"op":"remove","path":"/b"}]"#;
        json(&mut doc, patch).unwrap_err();
        assert_eq!(doc, json!({"a": 1}));
    }

    #[test]
    fn copies_are_limited() {
        let doc = json!({"a": {"x": "x".repeat(1024)}});
        let copies = (0..40).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/a/{index}")}));
        assert_eq!(apply(doc, &copies.collect()).unwrap_err().code, 413);
    }
}
