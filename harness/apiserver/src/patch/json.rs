//! JSON patch (RFC 6902) with Kubernetes' limits and error codes.

use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, PatchErrorKind, PatchOperation};
use serde_json::{Map, Value};

use super::too_large;
use crate::json;
use crate::status::ApiError;
use quantity::Saturating as _;

/// The maximum number of operations.
const MAX_OPERATIONS: usize = 10_000;
/// The maximum size that all `copy` operations together may add, in bytes of JSON.
const COPY_BUDGET: usize = 3 * 1024 * 1024;
/// How many values all `move` and `copy` operations together may move. An object has at most half a million.
const MOVE_BUDGET: usize = 5_000_000;
/// By how many places all operations together may shift items of lists, when they insert or remove others before them.
const SHIFT_BUDGET: usize = 100_000_000;

/// Applies a list of JSON patch operations; on an error `doc` is unchanged.
///
/// # Errors
/// 400 for a patch that cannot be decoded, 413 for more than 10,000 operations or copies of more than 3 MiB, 422 for
/// an operation that cannot be applied (a failed `test`, a path that does not exist, a result that is too deep).
pub fn json(doc: &mut Value, patch: &[u8]) -> Result<(), ApiError> {
    if json_if_tests_hold(doc, patch)? {
        Ok(())
    } else {
        Err(rejected())
    }
}

/// Applies a patch if all its tests hold; returns whether they do.
///
/// # Errors
/// As [`json`], for everything but a test.
pub(crate) fn json_if_tests_hold(doc: &mut Value, patch: &[u8]) -> Result<bool, ApiError> {
    let undecodable = |error: json::Malformed| ApiError::bad_request(format!("error decoding patch: {error}"));
    let operations = json::parse(patch).map_err(undecodable)?;
    let operations: Vec<Value> = serde_json::from_value(operations).map_err(|error| undecodable(error.into()))?;
    if operations.len() > MAX_OPERATIONS {
        let got = operations.len();
        return Err(too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}"
        )));
    }
    let mut patched = doc.clone();
    let mut copied = 0;
    let mut moves = MOVE_BUDGET;
    let mut shifts = SHIFT_BUDGET;
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
        check_depth(&operation, &patched, &mut moves)?;
        shifts = shifts.checked_sub(shifted(&operation, &patched)).ok_or_else(|| {
            too_large(format!(
                "The operations of a JSON patch may shift items of lists by {SHIFT_BUDGET} places"
            ))
        })?;
        match &operation {
            // Upstream treats an absent member as null here.
            PatchOperation::Test(test) if test.value.is_null() && test.path.resolve(&patched).is_err() => continue,
            PatchOperation::Copy(copy) => {
                copied.raise(copy.from.resolve(&patched).map_or(0, |value| value.to_string().len()));
                if copied > COPY_BUDGET {
                    return Err(too_large(format!(
                        "The copies of a JSON patch may have {COPY_BUDGET} bytes"
                    )));
                }
            }
            _ => {}
        }
        // A failure leaves `patched` in an undefined state, which is discarded.
        if let Err(error) = json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&operation)) {
            return match error.kind {
                PatchErrorKind::TestFailed => Ok(false),
                _ => Err(rejected()),
            };
        }
    }
    *doc = patched;
    Ok(true)
}

/// Whether the operation keeps the document within the limit of depth. As upstream, the limit applies to each
/// intermediate result.
fn check_depth(operation: &PatchOperation, doc: &Value, moves: &mut usize) -> Result<(), ApiError> {
    let mut unlimited = usize::MAX;
    let (value, place, visits): (_, &Pointer, _) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), &add.path, &mut unlimited),
        PatchOperation::Replace(replace) => (Some(&replace.value), &replace.path, &mut unlimited),
        PatchOperation::Move(moved) => (moved.from.resolve(doc).ok(), &moved.path, moves),
        PatchOperation::Copy(copy) => (copy.from.resolve(doc).ok(), &copy.path, moves),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    // Without a value, the operation fails.
    let Some(value) = value else { return Ok(()) };
    let fits = json::MAX_DEPTH
        .checked_sub(place.count())
        .is_some_and(|levels| json::fits_within(value, levels, visits));
    if fits {
        Ok(())
    } else if *visits == 0 {
        Err(too_large(format!(
            "The operations of a JSON patch may move {MOVE_BUDGET} values"
        )))
    } else {
        Err(rejected())
    }
}

/// How many items of lists the operation shifts.
fn shifted(operation: &PatchOperation, doc: &Value) -> usize {
    let after = |path: &Pointer| {
        let Some((list, index)) = path.split_back() else {
            return 0;
        };
        let Ok(Value::Array(items)) = list.resolve(doc) else {
            return 0;
        };
        // The index `-` is behind all items.
        index
            .decoded()
            .parse()
            .map_or(0, |index| items.len().saturating_sub(index))
    };
    match operation {
        PatchOperation::Add(add) => after(&add.path),
        PatchOperation::Copy(copy) => after(&copy.path),
        PatchOperation::Remove(remove) => after(&remove.path),
        PatchOperation::Move(moved) => after(&moved.from).saturating_add(after(&moved.path)),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
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
    use proptest::prelude::*;
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

    /// Nests `/a` one level deeper.
    fn deeper() -> [Value; 3] {
        [
            json!({"op": "move", "from": "/a", "path": "/b"}),
            json!({"op": "add", "path": "/a", "value": {}}),
            json!({"op": "move", "from": "/b", "path": "/a/b"}),
        ]
    }

    #[rstest]
    #[case::to_the_limit(json::MAX_DEPTH - 2, None)]
    #[case::beyond_the_limit(json::MAX_DEPTH - 1, Some(422))]
    #[case::thousands(3000, Some(422))]
    fn moves_can_nest_up_to_the_limit(#[case] times: usize, #[case] code: Option<u16>) {
        let patch = Value::Array((0..times).flat_map(|_| deeper()).collect());
        let patched = apply(json!({"a": {}}), &patch);
        assert_eq!(patched.as_ref().err().map(|error| error.code), code);
        assert!(patched.is_err() || json::fits(&patched.unwrap(), json::MAX_DEPTH));
    }

    #[test]
    fn copies_into_themselves_cannot_exceed_the_limit() {
        let copies = (0..20).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/a"}));
        let doubled =
            (0..20).map(|step| json!({"op": "copy", "from": "/a", "path": format!("/a{}", "/a".repeat(1 << step))}));
        assert!(apply(json!({"a": {}}), &copies.collect()).is_ok());
        assert_eq!(apply(json!({"a": {}}), &doubled.collect()).unwrap_err().code, 422);
    }

    #[test]
    fn moves_of_large_values_are_limited() {
        let doc = json!({"a": vec![0; 10_000], "c": {}});
        let there_and_back = [
            json!({"op": "move", "from": "/a", "path": "/c/d"}),
            json!({"op": "move", "from": "/c/d", "path": "/a"}),
        ];
        let patch = Value::Array(there_and_back.iter().cycle().take(1000).cloned().collect());
        assert_eq!(apply(doc, &patch).unwrap_err().code, 413);
    }

    #[rstest]
    #[case::at_the_start("/0", Some(413))]
    #[case::at_the_end("/-", None)]
    fn shifts_of_long_lists_are_limited(#[case] place: &str, #[case] code: Option<u16>) {
        let patch = Value::Array(vec![json!({"op": "add", "path": place, "value": 1}); 1000]);
        let patched = apply(Value::Array(vec![json!(0); 100_000]), &patch);
        assert_eq!(patched.err().map(|error| error.code), code);
    }

    #[test]
    fn removals_and_moves_shift_items() {
        let doc = json!({"a": [1, 2, 3, 4], "b": [1, 2]});
        let shifts = |patch: Value| shifted(&serde_json::from_value(patch).unwrap(), &doc);
        assert_eq!(shifts(json!({"op": "remove", "path": "/a/1"})), 3);
        assert_eq!(shifts(json!({"op": "move", "from": "/a/0", "path": "/b/1"})), 5);
        assert_eq!(shifts(json!({"op": "copy", "from": "/a/0", "path": "/b/0"})), 2);
        assert_eq!(shifts(json!({"op": "replace", "path": "/a/0", "value": 1})), 0);
        assert_eq!(shifts(json!({"op": "remove", "path": "/a"})), 0);
    }

    fn any_operation() -> impl Strategy<Value = Value> {
        let path = || "(/[ab]){0,5}|(/a){100,125}";
        let nested = (0_usize..125).prop_map(|levels| {
            let text = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
            json::parse(text.as_bytes()).unwrap_or_default()
        });
        prop_oneof![
            (path(), nested).prop_map(|(path, value)| json!({"op": "add", "path": path, "value": value})),
            (path(), path()).prop_map(|(from, path)| json!({"op": "move", "from": from, "path": path})),
            (path(), path()).prop_map(|(from, path)| json!({"op": "copy", "from": from, "path": path})),
        ]
    }

    proptest! {
        #[test]
        fn the_result_of_any_patch_can_be_read_back(patches in prop::collection::vec(any_operation(), 1..30)) {
            let mut doc = json!({"a": {"a": {}}, "b": {}});
            for patch in patches {
                // Whatever does not apply changes nothing.
                let _ = json(&mut doc, Value::Array(vec![patch]).to_string().as_bytes());
            }
            prop_assert!(json::fits(&doc, json::MAX_DEPTH));
            prop_assert_eq!(json::parse(doc.to_string().as_bytes()).ok(), Some(doc));
        }
    }

    #[test]
    fn copies_are_limited() {
        let doc = json!({"a": {"x": "x".repeat(1024)}});
        let copies = (0..40).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/a/{index}")}));
        assert_eq!(apply(doc, &copies.collect()).unwrap_err().code, 413);
    }
}
