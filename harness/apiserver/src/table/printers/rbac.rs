//! Role bindings.

use serde_json::Value;

use super::{age, items, joined, name, printer, text};
use crate::resource::Printer;

pub(crate) fn role_bindings() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Role", "string", 0),
        ("Age", "string", 0),
        ("Users", "string", 1),
        ("Groups", "string", 1),
        ("ServiceAccounts", "string", 1),
    ];
    printer(&columns, |binding, now| {
        let role = format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let accounts: Vec<String> = subjects(binding, "ServiceAccount")
            .map(|subject| format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")))
            .collect();
        vec![
            name(binding),
            role.into(),
            age(binding, now),
            joined(subjects(binding, "User").map(|subject| text(subject, "/name")), "").into(),
            joined(subjects(binding, "Group").map(|subject| text(subject, "/name")), "").into(),
            accounts.join(", ").into(),
        ]
    })
}

fn subjects<'a>(binding: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    items(binding, "/subjects")
        .iter()
        .filter(move |subject| text(subject, "/kind") == kind)
}
