//! Devices and claims for them.

use serde_json::Value;

use super::{AGE, NAME, age, is_true, items, name, printer, text};
use crate::resource::Printer;

pub(crate) fn device_classes() -> Printer {
    printer(&[NAME, AGE], |class, now| vec![name(class), age(class, now)])
}

pub(crate) fn resource_claims() -> Printer {
    printer(&[NAME, ("State", "string", 0), AGE], |claim, now| {
        vec![name(claim), state(claim).into(), age(claim, now)]
    })
}

fn state(claim: &Value) -> String {
    let reserved = !items(claim, "/status/reservedFor").is_empty();
    let parts = [
        ("deleted", claim.pointer("/metadata/deletionTimestamp").is_some()),
        (
            "allocated",
            claim.pointer("/status/allocation").is_some_and(Value::is_object),
        ),
        ("reserved", reserved),
    ];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(part, _)| part)
        .collect();
    match parts.is_empty() {
        true => "pending".to_owned(),
        false => parts.join(","),
    }
}

pub(crate) fn resource_slices() -> Printer {
    let columns = [
        NAME,
        ("Node", "string", 0),
        ("Driver", "string", 0),
        ("Pool", "string", 0),
        AGE,
    ];
    printer(&columns, |slice, now| {
        let node = match (text(slice, "/spec/nodeName"), is_true(slice, "/spec/allNodes")) {
            (_, true) => "*",
            ("", false) => "<unset>",
            (node, false) => node,
        };
        vec![
            name(slice),
            node.into(),
            text(slice, "/spec/driver").into(),
            text(slice, "/spec/pool/name").into(),
            age(slice, now),
        ]
    })
}
