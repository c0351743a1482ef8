//! Nodes.

use serde_json::Value;

use super::{NONE, UNKNOWN, age, condition, is_true, items, joined, name, printer, text, text_or};
use crate::resource::Printer;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

pub(crate) fn nodes() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Status", "string", 0),
        ("Roles", "string", 0),
        ("Age", "string", 0),
        ("Version", "string", 0),
        ("Internal-IP", "string", 1),
        ("External-IP", "string", 1),
        ("OS-Image", "string", 1),
        ("Kernel-Version", "string", 1),
        ("Container-Runtime", "string", 1),
    ];
    printer(&columns, |node, now| {
        vec![
            name(node),
            status(node).into(),
            roles(node).into(),
            age(node, now),
            text(node, "/status/nodeInfo/kubeletVersion").into(),
            address(node, "InternalIP").into(),
            address(node, "ExternalIP").into(),
            text_or(node, "/status/nodeInfo/osImage", UNKNOWN).into(),
            text_or(node, "/status/nodeInfo/kernelVersion", UNKNOWN).into(),
            text_or(node, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN).into(),
        ]
    })
}

fn status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    if is_true(node, "/spec/unschedulable") {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

fn roles(node: &Value) -> String {
    let labels = node
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role).filter(|role| !role.is_empty()),
            None if key == ROLE_LABEL => value.as_str().filter(|role| !role.is_empty()),
            None => None,
        })
        .collect();
    roles.sort_unstable();
    roles.dedup();
    joined(roles, NONE)
}

fn address<'a>(node: &'a Value, type_: &str) -> &'a str {
    let found = items(node, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == type_);
    found.map_or(NONE, |address| text(address, "/address"))
}

pub(crate) fn runtime_classes() -> Printer {
    let columns = [("Name", "string", 0), ("Handler", "string", 0), ("Age", "string", 0)];
    printer(&columns, |class, now| {
        vec![name(class), text(class, "/handler").into(), age(class, now)]
    })
}
