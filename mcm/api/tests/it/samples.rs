//! A sample of each kind with a value for every field of the table.

use serde_json::{Value, json};

use crate::fields::{KINDS, SHARED};

/// The sample of that kind.
pub fn full_object(kind: &str) -> Value {
    let fields = KINDS.iter().find(|(name, _)| *name == kind).unwrap().1;
    let mut object = filled(fields);
    object["apiVersion"] = json!("machine.sapcloud.io/v1alpha1");
    object["kind"] = json!(kind);
    object["metadata"] = value_of("Metadata");
    object
}

fn filled(fields: &str) -> Value {
    let mut object = json!({});
    for line in fields.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (path, type_) = line.split_once(": ").unwrap();
        set(&mut object, path, value_of(type_));
    }
    object
}

fn set(object: &mut Value, path: &str, value: Value) {
    let (head, rest) = path
        .split_once('.')
        .map_or((path, None), |(head, rest)| (head, Some(rest)));
    let slot = match head.strip_suffix("[]") {
        Some(name) => {
            let list = &mut object[name];
            if list.is_null() {
                *list = json!([null]);
            }
            &mut list[0]
        }
        None => &mut object[head],
    };
    match rest {
        Some(rest) => set(slot, rest, value),
        None => *slot = value,
    }
}

fn value_of(type_: &str) -> Value {
    match type_ {
        "string" => json!("text"),
        "int" => json!(3),
        "bool" => json!(true),
        "time" => json!("2026-01-02T03:04:05Z"),
        "duration" => json!("1h30m0s"),
        "number or text" => json!("25%"),
        "quantities" => json!({ "cpu": "2", "gpu": "0", "memory": "8Gi" }),
        "strings" => json!({ "example.com/key": "value" }),
        "anything" => {
            json!({ "machineType": "m5.large", "disks": [{ "size": 50, "nested": { "deep": [1, "two", true] } }] })
        }
        shared => filled(
            SHARED
                .iter()
                .find(|(name, _)| *name == shared)
                .unwrap_or_else(|| panic!("no type {shared}"))
                .1,
        ),
    }
}
