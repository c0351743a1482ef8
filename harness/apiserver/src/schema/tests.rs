use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn compile(properties: Value) -> StructuralSchema {
    StructuralSchema::compile(&json!({"type": "object", "properties": properties})).unwrap()
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::root_without_type(json!({}), "type: Required value: must not be empty at the root")]
#[case::root_of_wrong_type(json!({"type": "string"}), "type: Invalid value: \"string\": must be object at the root")]
#[case::property_without_type(json!({"type": "object", "properties": {"a": {}}}), "properties[a].type: Required value: must not be empty for specified object fields")]
#[case::items_without_type(json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}), "properties[a].items.type: Required value: must not be empty for specified array items")]
#[case::array_without_items(json!({"type": "object", "properties": {"a": {"type": "array"}}}), "properties[a].items: Required value: must be specified")]
#[case::unknown_type(json!({"type": "object", "properties": {"a": {"type": "text"}}}), "properties[a].type: Unsupported value: \"text\"")]
#[case::reference(json!({"type": "object", "properties": {"a": {"type": "object", "$ref": "x"}}}), "properties[a].$ref: Forbidden: $ref is not supported")]
#[case::unique_items(json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}}}), "properties[a].uniqueItems: Forbidden")]
#[case::both_kinds_of_members(json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}), "mutual exclusive")]
#[case::no_additional(json!({"type": "object", "additionalProperties": false}), "additionalProperties: Forbidden")]
#[case::preserve_false(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}), "must be true or undefined")]
#[case::type_in_any_of(json!({"type": "object", "properties": {"a": {"type": "object", "anyOf": [{"type": "object", "required": ["b"]}]}}}), "properties[a].anyOf[0].type: Forbidden: must be empty to be structural")]
#[case::only_in_any_of(json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}), "properties[b]: Required value")]
#[case::map_without_keys(json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}), "x-kubernetes-list-map-keys: Required value")]
#[case::optional_key(json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}), "x-kubernetes-list-map-keys[0]: Required value")]
#[case::bad_pattern(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}), "properties[a].pattern: Invalid value: \"(\"")]
#[case::bad_default(json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}), "properties[a].default: Invalid value: \"integer\"")]
#[case::unknown_default(json!({"type": "object", "properties": {"a": {"type": "object", "default": {"x": 1}}}}), "must not have unknown fields: x")]
#[case::metadata(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}), "properties[metadata]: Forbidden")]
fn nonstructural_schemas_are_rejected(#[case] schema: Value, #[case] message: &str) {
    let errors = texts(&StructuralSchema::compile(&schema).unwrap_err());
    assert!(errors.iter().any(|error| error.contains(message)), "{errors:#?}");
}

#[test]
fn rules_and_int_or_string_alternatives_are_accepted() {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "true"}],
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let compiled = StructuralSchema::compile(&schema).unwrap();
    assert_eq!(compiled.raw(), &schema);
    assert_eq!(compiled.validate(&json!({"port": "80%", "any": [1]}), None), []);
    assert_eq!(
        texts(&compiled.validate(&json!({"port": true}), None)),
        [
            "port: Invalid value: \"boolean\": port in body must be of type integer,string: \"boolean\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
}

fn with_rules() -> StructuralSchema {
    compile(json!({
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "!has(self.a) || self.a != 'bad'", "message": "a is bad"},
                {"rule": "self.fixed == oldSelf.fixed", "message": "fixed is fixed"},
            ],
            "properties": {
                "a": {"type": "string"},
                "fixed": {"type": "string"},
                "size": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self.matches('^[0-9]+%$')", "message": "no size"}],
                },
            },
        },
    }))
}

#[rstest]
#[case::good(json!({"a": "x", "fixed": "1", "size": "10%"}), None, &[])]
#[case::object(json!({"a": "bad", "fixed": "1"}), None, &["spec: Invalid value: a is bad"])]
#[case::scalar(json!({"fixed": "1", "size": "3"}), None, &["spec.size: Invalid value: \"3\": no size"])]
#[case::changed(json!({"fixed": "2"}), Some(json!({"fixed": "1"})), &["spec: Invalid value: fixed is fixed"])]
#[case::kept(json!({"fixed": "1", "a": "x"}), Some(json!({"fixed": "1"})), &[])]
#[case::as_it_was(json!({"fixed": "1", "a": "bad"}), Some(json!({"fixed": "1", "a": "bad"})), &[])]
fn rules_are_evaluated(#[case] new: Value, #[case] old: Option<Value>, #[case] expected: &[&str]) {
    let old = old.map(|spec| json!({ "spec": spec }));
    assert_eq!(
        texts(&with_rules().validate(&json!({ "spec": new }), old.as_ref())),
        expected
    );
}

/// Only a change of `spec` can change the result of these rules.
fn with_rules_of_spec() -> StructuralSchema {
    compile(json!({
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "!has(self.a) || self.a != 'bad'", "message": "a is bad"}],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }))
}

#[rstest]
#[case::created(json!({"spec": {"a": "bad"}}), None, &["spec: Invalid value: a is bad"])]
#[case::status_changes(json!({"spec": {"a": "bad"}, "status": {"phase": "x"}}), Some(json!({"spec": {"a": "bad"}})), &[])]
#[case::spec_changes(json!({"spec": {"a": "bad", "b": "x"}}), Some(json!({"spec": {"a": "bad"}})), &["spec: Invalid value: a is bad"])]
#[case::becomes_bad(json!({"spec": {"a": "bad"}}), Some(json!({"spec": {}})), &["spec: Invalid value: a is bad"])]
#[case::appears(json!({"spec": {"a": "bad"}}), Some(json!({})), &["spec: Invalid value: a is bad"])]
fn rules_are_evaluated_when_what_they_read_changes(
    #[case] new: Value,
    #[case] old: Option<Value>,
    #[case] expected: &[&str],
) {
    assert_eq!(texts(&with_rules_of_spec().validate(&new, old.as_ref())), expected);
}

#[test]
fn an_invalid_rule_is_rejected() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}},
    });
    let errors = texts(&StructuralSchema::compile(&schema).unwrap_err());
    assert!(
        errors[0].starts_with(
            "properties[spec].x-kubernetes-validations[0].rule: Invalid value: \"self.(\": compilation failed"
        ),
        "{errors:?}"
    );
}

#[test]
fn unspecified_fields_are_pruned() {
    let schema = compile(json!({
        "spec": {"type": "object", "properties": {
            "known": {"type": "string"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "closed": {"type": "object", "properties": {"a": {"type": "string"}}},
            }},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }},
    }));
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "unknown": 1,
        "metadata": {"name": "w", "labels": {"a": "b"}, "nme": 1},
        "spec": {
            "known": "x", "unknown": 1,
            "open": {"anything": {"goes": 1}, "closed": {"a": "b", "c": 1}},
            "map": {"k": {"a": "b", "c": 1}},
            "list": [{"a": "b"}, {"c": 1}],
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "x": 1}, "spec": {"x": 1}, "status": {}},
        },
    });
    assert_eq!(
        schema.prune(&mut object),
        [
            "metadata.nme",
            "spec.list[1].c",
            "spec.map.k.c",
            "spec.open.closed.c",
            "spec.template.metadata.x",
            "spec.template.spec.x",
            "spec.template.status",
            "spec.unknown",
            "unknown",
        ]
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}},
            "spec": {
                "known": "x",
                "open": {"anything": {"goes": 1}, "closed": {"a": "b"}},
                "map": {"k": {"a": "b"}},
                "list": [{"a": "b"}, {}],
                "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
            },
        })
    );
}

#[test]
fn defaults_fill_absent_fields() {
    let schema = compile(json!({
        "spec": {"type": "object", "default": {}, "properties": {
            "replicas": {"type": "integer", "default": 1},
            "nullable": {"type": "string", "nullable": true, "default": "x"},
            "plain": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}}},
        }},
    }));
    let default = |mut object: Value| {
        schema.default(&mut object).unwrap();
        object
    };
    assert_eq!(default(json!({})), json!({"spec": {"replicas": 1, "nullable": "x"}}));
    assert_eq!(
        default(json!({"spec": {"replicas": null, "nullable": null, "plain": null, "list": [{}], "map": {"k": {}}}})),
        json!({"spec": {"replicas": 1, "nullable": null, "list": [{"protocol": "TCP"}], "map": {"k": {"a": "b"}}}})
    );
}

#[rstest]
#[case(json!({"type": "integer"}), json!("string"), "a: Invalid value: \"string\": a in body must be of type integer: \"string\"")]
#[case(json!({"type": "string"}), json!(null), "a: Invalid value: \"null\": a in body must be of type string: \"null\"")]
#[case(json!({"type": "integer"}), json!(1.5), "a: Invalid value: \"number\": a in body must be of type integer: \"number\"; <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in a")]
#[case(json!({"type": "string", "minLength": 3}), json!("ab"), "a: Invalid value: \"ab\": a in body should be at least 3 chars long")]
#[case(json!({"type": "string", "maxLength": 1}), json!("ab"), "a: Too long: may not be more than 1 byte")]
#[case(json!({"type": "string", "pattern": "^x$"}), json!("ab"), "a: Invalid value: \"ab\": a in body should match '^x$'")]
#[case(json!({"type": "string", "format": "date-time"}), json!("ab"), "a: Invalid value: \"ab\": a in body must be of type date-time: \"ab\"")]
#[case(json!({"type": "string", "enum": ["x", "y"]}), json!("ab"), "a: Unsupported value: \"ab\": supported values: \"x\", \"y\"")]
#[case(json!({"type": "integer", "maximum": 3}), json!(4), "a: Invalid value: 4: a in body should be less than or equal to 3")]
#[case(json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}), json!(3), "a: Invalid value: 3: a in body should be less than 3")]
#[case(json!({"type": "integer", "minimum": 1}), json!(0), "a: Invalid value: 0: a in body should be greater than or equal to 1")]
#[case(json!({"type": "integer", "multipleOf": 5}), json!(4), "a: Invalid value: 4: a in body should be a multiple of 5")]
#[case(json!({"type": "integer", "format": "int32"}), json!(3_000_000_000_u32), "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in a")]
#[case(json!({"type": "array", "items": {"type": "string"}, "minItems": 1}), json!([]), "a: Invalid value: 0: a in body should have at least 1 items")]
#[case(json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}), json!(["x", "y"]), "a: Too many: 2: must have at most 1 item")]
#[case(json!({"type": "array", "items": {"type": "string"}}), json!(["x", 1]), "a[1]: Invalid value: \"integer\": a[1] in body must be of type string: \"integer\"")]
#[case(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}), json!(["x", "x"]), "a[1]: Duplicate value: \"x\"")]
#[case(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}), json!([{"k": "x"}, {"k": "x"}]), "a[1]: Duplicate value: {\"k\":\"x\"}")]
#[case(json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}), json!({}), "a.b: Required value")]
#[case(json!({"type": "object", "additionalProperties": {"type": "string"}}), json!({"k": 1}), "a.k: Invalid value: \"integer\": a.k in body must be of type string: \"integer\"")]
#[case(json!({"type": "object", "properties": {"b": {"type": "integer"}}, "allOf": [{"properties": {"b": {"minimum": 2}}}]}), json!({"b": 1}), "a.b: Invalid value: 1: a.b in body should be greater than or equal to 2; <nil>: Invalid value: \"\": \"a\" must validate all the schemas (allOf). None validated")]
#[case(json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}), json!(3), "<nil>: Invalid value: \"\": \"a\" must validate at least one schema (anyOf); a: Invalid value: 3: a in body should be greater than or equal to 5")]
#[case(json!({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}), json!(3), "<nil>: Invalid value: \"\": \"a\" must validate one and only one schema (oneOf). Found 2 valid alternatives")]
#[case(json!({"type": "integer", "not": {"minimum": 1}}), json!(3), "<nil>: Invalid value: \"\": \"a\" must not validate the schema (not)")]
#[case(json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}), json!({"kind": "Pod"}), "a.apiVersion: Required value: must not be empty")]
fn messages(#[case] schema: Value, #[case] value: Value, #[case] message: &str) {
    let schema = compile(json!({"a": schema}));
    assert_eq!(texts(&schema.validate(&json!({"a": value}), None)).join("; "), message);
}

#[test]
fn unchanged_invalid_values_are_tolerated() {
    let schema = compile(json!({
        "spec": {"type": "object", "properties": {
            "a": {"type": "string", "minLength": 3},
            "b": {"type": "string", "minLength": 3},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}},
            }},
        }},
    }));
    let old = json!({"spec": {"a": "x", "b": "long", "list": [{"k": "one", "v": 5}]}});
    let new = json!({"spec": {"a": "x", "b": "y", "list": [{"k": "two", "v": 7}, {"k": "one", "v": 5}]}});
    let fields: Vec<String> = schema
        .validate(&new, Some(&old))
        .into_iter()
        .map(|error| error.field)
        .collect();
    assert_eq!(fields, ["spec.b", "spec.list[0].v"]);
    assert_eq!(schema.validate(&old, Some(&old)), []);
}

/// A schema that covers pruning and defaults.
fn rich() -> StructuralSchema {
    compile(json!({
        "a": {"type": "object", "default": {}, "properties": {
            "b": {"type": "integer", "default": 1},
            "c": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"d": {"type": "string", "default": "x"}}},
        }},
        "b": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string", "nullable": true, "default": "y"}}}},
        "c": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer", "default": 2}}}},
    }))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3).prop_map(Value::from),
        "[x-z]".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-e]", inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent(mut object in any_json()) {
        let schema = rich();
        schema.prune(&mut object);
        schema.default(&mut object).unwrap();
        let once = object.clone();
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        schema.default(&mut object).unwrap();
        prop_assert_eq!(object, once);
    }

    #[test]
    fn an_object_is_valid_as_an_update_of_itself(object in any_json()) {
        prop_assert_eq!(rich().validate(&object, Some(&object)), vec![]);
    }

    #[test]
    fn any_json_compiles_or_is_rejected(schema in any_json()) {
        let _ = StructuralSchema::compile(&json!({"type": "object", "properties": {"a": schema}}));
    }
}

/// A schema within `levels` times `wrap`, and the values at the end of it.
fn wrapped(levels: usize, wrap: fn(Value) -> Value) -> StructuralSchema {
    let inner = (0..levels).fold(json!({"maxLength": 1}), |inner, _| wrap(inner));
    let mut text = inner;
    text["type"] = "string".into();
    compile(json!({ "a": text }))
}

#[rstest]
#[case::all_of(|inner| json!({"allOf": [inner]}))]
#[case::any_of(|inner| json!({"anyOf": [inner]}))]
#[case::one_of(|inner| json!({"oneOf": [inner]}))]
#[case::not(|inner| json!({"not": inner}))]
fn nested_alternatives_are_evaluated_once_each(#[case] wrap: fn(Value) -> Value) {
    // Twice each would be 2^50 evaluations.
    let schema = wrapped(50, wrap);
    assert_eq!(schema.validate(&json!({"a": "x"}), None), []);
    assert_ne!(schema.validate(&json!({"a": "xx"}), None), []);
}

#[test]
fn defaults_cannot_multiply_beyond_the_size_of_an_object() {
    let list = |items: Value, count: usize| json!({"type": "array", "items": items, "default": vec![json!({}); count]});
    let object = |list: Value| json!({"type": "object", "properties": {"list": list}});
    let text = json!({"type": "object", "properties": {"text": {"type": "string", "default": "x".repeat(1000)}}});
    // Of the schema itself.
    let bomb = object(list(object(list(object(list(text.clone(), 1000)), 1000)), 1000));
    assert!(StructuralSchema::compile(&json!({"type": "object", "properties": {"spec": bomb}})).is_err());
    // Of an object.
    let items = json!({"type": "array", "items": text});
    let schema = compile(json!({ "spec": items }));
    let object = |count: usize| json!({"spec": vec![json!({}); count]});
    assert_eq!(schema.default(&mut object(1000)), Ok(()));
    assert_eq!(schema.default(&mut object(2000)), Err(TooLarge));
}

#[test]
fn errors_are_limited() {
    let schema = compile(json!({"list": {"type": "array", "items": {"type": "string"}}}));
    let errors = schema.validate(&json!({"list": vec![0; 100_000]}), None);
    assert!((100..110).contains(&errors.len()), "{}", errors.len());
}

/// In quadratic time this would take minutes.
#[test]
fn long_lists_are_validated() {
    let items = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}});
    let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": items});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
    let schema = compile(json!({"map": map, "set": set}));
    let list = |count: usize, n: usize| -> Vec<Value> {
        (0..count)
            .map(|index| json!({"name": format!("i{index}"), "n": n}))
            .collect()
    };
    let numbers: Vec<usize> = (0..60_000).collect();
    let old = json!({"map": list(60_000, 1), "set": numbers});
    let mut new = json!({"map": list(60_000, 2), "set": numbers});
    assert_eq!(schema.validate(&new, Some(&old)), []);
    for (field, duplicate) in [("map", json!({"name": "i1", "n": 1})), ("set", json!(1))] {
        new[field].as_array_mut().unwrap().push(duplicate);
    }
    let fields: Vec<String> = schema
        .validate(&new, Some(&old))
        .into_iter()
        .map(|error| error.field)
        .collect();
    assert_eq!(fields, ["map[60000]", "set[60000]"]);
}
