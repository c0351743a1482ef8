//! What is encoded decodes to the same JSON.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::types;
use crate::types::table::{Form, Shape, Type};

/// Encodes and decodes an object of a built-in kind.
fn round_trip(object: &Value) -> Value {
    let bytes = response::object(object).unwrap();
    decode(&bytes).unwrap()
}

/// The canonical form of an object, in which the server stores it, without what decoding cannot tell from nothing:
/// empty objects and lists, and explicit zeros that Go writes for what is no pointer.
fn trimmed(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), trimmed(value)))
            .filter(|(_, value)| !is_empty(value))
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(items) => items.iter().map(trimmed).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[test]
fn initial_objects_survive() {
    let resources = crate::kinds::builtin();
    let objects = crate::seeds::all(resources.iter(), "certificate", "2026-01-01T00:00:00Z").unwrap();
    for object in objects {
        assert_eq!(trimmed(&round_trip(&object)), trimmed(&object));
    }
}

#[test]
fn a_definition_with_alternatives_survives() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "default": { "a": [1, 1.5] },
        "properties": {
            "list": { "type": "array", "items": { "type": "string" } },
            "map": { "type": "object", "additionalProperties": { "type": "integer", "minimum": 1.5 } },
            "any": { "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    let versions = json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }]);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" }, "versions": versions },
    });
    assert_eq!(trimmed(&round_trip(&definition)), definition);
}

/// Values of a type, as clients send them.
fn any_of(type_: &'static Type, depth: u32) -> BoxedStrategy<Value> {
    match type_.form {
        Form::Object if depth == 0 => Just(json!({})).boxed(),
        Form::Object => {
            let fields: Vec<BoxedStrategy<Option<(String, Value)>>> = type_
                .fields
                .iter()
                .filter(|field| !field.tag.is_empty())
                .map(|field| {
                    let value = any_shape(&field.shape, depth.saturating_sub(1));
                    let name = field.name.to_owned();
                    prop_oneof![
                        5 => Just(None),
                        1 => value.prop_map(move |value| Some((name.clone(), value))),
                    ]
                    .boxed()
                })
                .collect();
            fields
                .prop_map(|members| members.into_iter().flatten().collect::<Map<String, Value>>().into())
                .boxed()
        }
        Form::Quantity => prop::sample::select(vec!["1", "100m", "1Gi"])
            .prop_map(Value::from)
            .boxed(),
        Form::IntOrString => {
            prop_oneof![(1..70_000).prop_map(Value::from), "[a-z]{1,5}%?".prop_map(Value::from)].boxed()
        }
        Form::Time => Just(json!("2026-01-31T12:00:00Z")).boxed(),
        Form::MicroTime => Just(json!("2026-01-31T12:00:00.123456Z")).boxed(),
        Form::Json | Form::AnyObject => Just(json!({ "a": [1, "b", null] })).boxed(),
        Form::SchemaOrArray | Form::SchemaOrBool | Form::SchemaOrStrings => Just(json!({ "type": "string" })).boxed(),
    }
}

fn any_shape(shape: &'static Shape, depth: u32) -> BoxedStrategy<Value> {
    match shape {
        Shape::String => "[a-zäß]{1,8}".prop_map(Value::from).boxed(),
        Shape::Bytes => Just(json!("Ynl0ZXM=")).boxed(),
        Shape::Bool => Just(json!(true)).boxed(),
        Shape::Int32 => prop_oneof![1..i32::MAX, i32::MIN..-1].prop_map(Value::from).boxed(),
        Shape::Int64 => prop_oneof![1..i64::MAX, i64::MIN..-1].prop_map(Value::from).boxed(),
        Shape::Double => prop::sample::select(vec![1.5, -2.25, 1e20])
            .prop_map(Value::from)
            .boxed(),
        Shape::Type(_) => shape
            .type_()
            .map_or(Just(Value::Null).boxed(), |type_| any_of(type_, depth)),
        Shape::List(inner) => prop::collection::vec(any_shape(inner, depth), 1..3)
            .prop_map(Value::from)
            .boxed(),
        Shape::Map(inner) => prop::collection::btree_map("[a-z]{1,5}", any_shape(inner, depth), 1..3)
            .prop_map(|members| members.into_iter().collect::<Map<String, Value>>().into())
            .boxed(),
    }
}

/// Objects of the kinds that clients read most.
fn any_object() -> impl Strategy<Value = Value> {
    let kinds = [
        ("v1", "Pod"),
        ("v1", "Node"),
        ("v1", "Service"),
        ("v1", "Secret"),
        ("v1", "PersistentVolume"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
        ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
        ("events.k8s.io/v1", "Event"),
    ];
    prop::sample::select(kinds.to_vec()).prop_flat_map(|(version, kind)| {
        let type_ = table().of_kind(version, kind).unwrap();
        any_of(type_, 5).prop_map(move |mut object| {
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            object
        })
    })
}

proptest! {
    #[test]
    fn objects_survive(object in any_object()) {
        let name = types::name_of(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap();
        let mut canonical = round_trip(&object);
        let mut expected = object;
        // Explicit zeros of what is no pointer appear on the way.
        for value in [&mut canonical, &mut expected] {
            types::canonicalise(name, value);
        }
        let mut twice = round_trip(&canonical);
        // Decoding drops zeros, which the server adds again.
        types::canonicalise(name, &mut twice);
        prop_assert_eq!(&twice, &canonical);
        prop_assert!(contains(&trimmed(&canonical), &trimmed(&expected)), "{} lacks parts of {}", canonical, expected);
    }
}

/// Whether `whole` has all of `part`; the rest are zeros.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part || (whole.is_number() && whole.as_f64() == part.as_f64()),
    }
}
