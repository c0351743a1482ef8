//! Properties of applied configurations, and the order of events that single steps cannot show.

use std::borrow::Cow;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FieldSet, Managers, NotApplied, Versions, Write, apply, compare, record};
use crate::resource::Shape;
use crate::schema::StructuralSchema;

/// A kind of which each list type and map type has a field.
static WIDGET: LazyLock<Shape> = LazyLock::new(|| {
    let text = json!({ "type": "string" });
    let item = json!({ "type": "object", "required": ["name"], "properties": { "name": text, "value": text, "tags": {
        "type": "array", "items": text, "x-kubernetes-list-type": "set",
    } } });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "text": text,
        "keyed": { "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] },
        "set": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
        "list": { "type": "array", "items": text },
        "map": { "type": "object", "additionalProperties": text },
        "whole": { "type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic" },
        "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    } } } });
    Shape::Custom(StructuralSchema::compile(&schema).unwrap().into())
});

#[derive(Debug)]
struct OneVersion;

impl Versions for OneVersion {
    fn shape(&self, api_version: &str) -> Option<&Shape> {
        (api_version == "example.com/v1").then_some(&WIDGET)
    }

    fn convert<'v>(&self, object: &'v Value, _: &str, _: &str) -> Cow<'v, Value> {
        Cow::Borrowed(object)
    }
}

fn write<'a>(manager: &'a str, now: &'a str, ignored: &'a FieldSet) -> Write<'a> {
    Write {
        manager,
        api_version: "example.com/v1",
        form: "example.com/v1",
        subresource: "",
        now,
        versions: &OneVersion,
        ignored,
    }
}

fn empty() -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget" })
}

/// A configuration with that spec.
fn widget(spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec })
}

fn applied(live: &Value, manager: &str, spec: &Value, force: bool) -> Result<Value, NotApplied> {
    let none = FieldSet::default();
    let write = write(manager, "2026-01-01T00:00:00Z", &none);
    apply(&empty(), live, &widget(spec), force, &write)
}

/// The object after an ordinary write that changes it to have that spec.
fn updated(live: &Value, manager: &str, spec: &Value) -> Value {
    let none = FieldSet::default();
    let write = write(manager, "2026-01-01T00:00:00Z", &none);
    let mut new = live.clone();
    new["spec"] = spec.clone();
    let managers = record(compare(live, &new, &write), (live, &new), Managers::of(live), &write);
    super::set_managers(&mut new, &managers);
    new
}

fn content(object: &Value) -> Value {
    super::without_managers(object)
}

/// The value with its lists sorted.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(unordered).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), unordered(member)))
            .collect(),
        other => other.clone(),
    }
}

/// The object without managers and without members in which nothing is left.
fn leaves(object: &Value) -> Value {
    fn filled(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, member)| (name, filled(member)));
                let is_left = |member: &Value| !member.is_null() && *member != json!({});
                Value::Object(members.filter(|(_, member)| is_left(member)).collect())
            }
            other => other,
        }
    }
    filled(content(object))
}

/// A spec of which every list is free of duplicates.
fn any_spec() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["a", "b", "c"]).prop_map(Value::from);
    let set = || prop::collection::btree_set(prop::sample::select(vec!["x", "y", "z"]), 1..3);
    let texts = move || set().prop_map(|texts| json!(texts.into_iter().collect::<Vec<_>>()));
    let map = move || {
        prop::collection::btree_map(prop::sample::select(vec!["k", "l", "m"]), text(), 1..3)
            .prop_map(|map| json!(map.into_iter().collect::<std::collections::BTreeMap<_, _>>()))
    };
    let item = (prop::option::of(text()), prop::option::of(texts()));
    let keyed = prop::collection::btree_map(prop::sample::select(vec!["i", "j", "k"]), item, 1..3).prop_map(|items| {
        let items = items.into_iter().map(|(name, (value, tags))| {
            let mut item = json!({ "name": name });
            for (field, value) in [("value", value), ("tags", tags)] {
                if let Some(value) = value {
                    item[field] = value;
                }
            }
            item
        });
        Value::Array(items.collect())
    });
    let fields = (
        prop::option::of(text()),
        prop::option::of(keyed),
        prop::option::of(texts()),
        prop::option::of(texts()),
        prop::option::of(map()),
        prop::option::of(map()),
        prop::option::of(map()),
    );
    fields.prop_map(|(text, keyed, set, list, map, whole, open)| {
        let mut spec = json!({});
        for (name, value) in [
            ("text", text),
            ("keyed", keyed),
            ("set", set),
            ("list", list),
            ("map", map),
            ("whole", whole),
            ("open", open),
        ] {
            if let Some(value) = value {
                spec[name] = value;
            }
        }
        spec
    })
}

proptest! {
    #[test]
    fn a_configuration_that_is_applied_twice_changes_nothing(one in any_spec(), two in any_spec()) {
        let live = applied(&empty(), "other", &one, true).unwrap();
        let once = applied(&live, "me", &two, true).unwrap();
        let twice = applied(&once, "me", &two, false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_new_object_is_the_configuration(spec in any_spec()) {
        let object = applied(&empty(), "me", &spec, false).unwrap();
        prop_assert_eq!(content(&object), widget(&spec));
    }

    #[test]
    fn a_dropped_configuration_leaves_nothing(one in any_spec(), two in any_spec()) {
        let first = applied(&empty(), "me", &one, false).unwrap();
        let second = applied(&first, "me", &two, false).unwrap();
        let fresh = applied(&empty(), "me", &two, false).unwrap();
        prop_assert_eq!(leaves(&second), leaves(&fresh));
    }

    #[test]
    fn what_another_manager_wrote_stays(one in any_spec(), two in any_spec(), three in any_spec()) {
        let live = applied(&empty(), "other", &one, false).unwrap();
        // Conflicts are refused; whatever is accepted leaves the other's fields in place. Only the order of items follows the last
        // configuration: after [y, z] of the other and [x], [x, y] of me, the set is [z, x, y], and the other makes it [x, y, z].
        if let Ok(live) = applied(&live, "me", &two, false)
            && let Ok(live) = applied(&live, "me", &three, false)
        {
            prop_assert_eq!(unordered(&applied(&live, "other", &one, false).unwrap()), unordered(&live));
        }
    }

    #[test]
    fn managers_without_common_fields_commute(one in any_spec(), two in any_spec()) {
        let mut one = one;
        for name in two.as_object().unwrap().keys() {
            one.as_object_mut().unwrap().remove(name);
        }
        let both = |first: (&str, &Value), second: (&str, &Value)| {
            let live = applied(&empty(), first.0, first.1, false).unwrap();
            applied(&live, second.0, second.1, false).unwrap()
        };
        let (one, two) = (both(("a", &one), ("b", &two)), both(("b", &two), ("a", &one)));
        prop_assert_eq!(content(&one), content(&two));
        // Their order depends on which one changed the object.
        let owned = |object: &Value| -> Vec<_> {
            let managers = Managers::of(object);
            let entries = managers.iter();
            entries.map(|(manager, owned)| (manager.clone(), owned.fields.clone())).collect()
        };
        prop_assert_eq!(owned(&one), owned(&two));
    }

    #[test]
    fn a_forced_configuration_prevails(one in any_spec(), two in any_spec(), three in any_spec()) {
        let live = applied(&empty(), "other", &one, false).unwrap();
        let live = updated(&live, "updater", &three);
        let object = applied(&live, "me", &two, true).unwrap();
        let again = applied(&object, "third", &two, false);
        prop_assert_eq!(again.map(|again| content(&again)), Ok(content(&object)));
    }

    #[test]
    fn a_field_that_changes_has_one_owner(one in any_spec(), two in any_spec()) {
        let live = applied(&empty(), "applier", &one, false).unwrap();
        let object = updated(&live, "updater", &two);
        let none = FieldSet::default();
        let changes = compare(&live, &object, &write("x", "", &none)).written();
        for (manager, owned) in Managers::of(&object).iter() {
            let taken = owned.fields.intersection(&changes);
            prop_assert!(manager.name == "updater" || taken.is_empty(), "{:?}", manager);
        }
    }

    #[test]
    fn managers_keep_their_encoding(one in any_spec(), two in any_spec()) {
        let live = applied(&empty(), "applier", &one, false).unwrap();
        let managers = Managers::of(&updated(&live, "updater", &two));
        let encoded = managers.encode().unwrap_or_default();
        prop_assert_eq!(Managers::decode(&encoded), Ok(managers));
    }
}

#[test]
fn managers_of_a_version_that_is_gone_are_dropped() {
    let mut live = applied(&empty(), "old", &json!({ "text": "a" }), false).unwrap();
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v1alpha1".into();
    let object = applied(&live, "new", &json!({ "text": "b" }), false).unwrap();
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let names: Vec<&Value> = managers.iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(names, ["new"]);
}

#[test]
fn managers_that_cannot_be_decoded_count_as_none() {
    let mut live = applied(&empty(), "old", &json!({ "text": "a" }), false).unwrap();
    live["metadata"]["managedFields"][0]["fieldsV1"] = json!({ "nonsense": {} });
    let object = applied(&live, "new", &json!({ "map": { "k": "a" } }), false).unwrap();
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let names: Vec<&Value> = managers.iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(names, ["new", "before-first-apply"]);
}

/// An object in whose field `open` a key of 100,000 bytes holds 1,000 members.
fn with_long_key(value: &str) -> Value {
    let members: serde_json::Map<String, Value> =
        (0..1_000).map(|number| (format!("m{number}"), value.into())).collect();
    json!({ "open": { "k".repeat(100_000): members } })
}

#[test]
fn an_error_does_not_repeat_a_long_key_for_each_field_below_it() {
    let live = applied(&empty(), "old", &with_long_key("a"), false).unwrap();
    let Err(NotApplied::Conflicts(conflicts)) = applied(&live, "new", &with_long_key("b"), false) else {
        panic!("expected conflicts");
    };
    let error = super::conflict_error(&conflicts);
    let start = "Apply failed with 1000 conflicts: conflicts with \"old\":\n- .spec.open.kkk";
    assert!(error.message.starts_with(start));
    assert!(error.message.len() < 200_000);
    assert!(error.details.unwrap().to_string().len() < 200_000);
}
