//! JSON merge patch (RFC 7396).

use serde_json::{Map, Value};

/// Applies `patch` to `doc`: merges objects member by member, null removes, any other value replaces.
pub fn merge(doc: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *doc = patch.clone();
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(target) = doc else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// The examples of RFC 7396, appendix A.
    #[rstest]
    #[case(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}))]
    #[case(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}))]
    #[case(json!({"a": "b"}), json!({"a": null}), json!({}))]
    #[case(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}))]
    #[case(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}))]
    #[case(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}))]
    #[case(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}))]
    #[case(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}))]
    #[case(json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"]))]
    #[case(json!({"a": "b"}), json!(["c"]), json!(["c"]))]
    #[case(json!({"a": "foo"}), json!(null), json!(null))]
    #[case(json!({"a": "foo"}), json!("bar"), json!("bar"))]
    #[case(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}))]
    #[case(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}))]
    #[case(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}))]
    fn examples_of_the_rfc(#[case] mut doc: Value, #[case] patch: Value, #[case] merged: Value) {
        merge(&mut doc, &patch);
        assert_eq!(doc, merged);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn has_null(value: &Value) -> bool {
        value
            .as_object()
            .is_some_and(|map| map.values().any(|value| value.is_null() || has_null(value)))
    }

    /// The patch that changes `old` to `new`.
    fn diff(old: &Value, new: &Value) -> Value {
        let (Value::Object(old), Value::Object(new)) = (old, new) else {
            return new.clone();
        };
        let removed = old
            .keys()
            .filter(|key| !new.contains_key(*key))
            .map(|key| (key.clone(), Value::Null));
        let changed = new
            .iter()
            .filter(|(key, value)| old.get(*key) != Some(value))
            .map(|(key, value)| {
                (
                    key.clone(),
                    old.get(key).map_or_else(|| value.clone(), |old| diff(old, value)),
                )
            });
        Value::Object(removed.chain(changed).collect())
    }

    proptest! {
        #[test]
        fn merging_is_idempotent(mut doc in any_json(), patch in any_json()) {
            merge(&mut doc, &patch);
            let once = doc.clone();
            merge(&mut doc, &patch);
            prop_assert_eq!(doc, once);
        }

        #[test]
        fn an_empty_patch_changes_no_object(mut doc in any_json().prop_filter("object", Value::is_object)) {
            let before = doc.clone();
            merge(&mut doc, &serde_json::json!({}));
            prop_assert_eq!(doc, before);
        }

        #[test]
        fn a_difference_changes_the_old_object_to_the_new(mut old in any_json(), new in any_json()) {
            prop_assume!(!has_null(&new));
            let patch = diff(&old, &new);
            merge(&mut old, &patch);
            prop_assert_eq!(old, new);
        }
    }
}
