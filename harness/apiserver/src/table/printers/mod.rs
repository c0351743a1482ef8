//! The columns of built-in kinds, as Kubernetes 1.36 prints them.

mod configuration;
mod control;
mod devices;
mod ingress;
mod networking;
mod nodes;
mod pods;
mod rbac;
mod scaling;
mod storage;
mod workloads;

use serde_json::Value;

pub(crate) use self::configuration::{
    config_maps, created_at, events, leases, namespaces, priority_classes, secrets, service_accounts,
};
pub(crate) use self::control::{
    addresses, api_services, component_statuses, flow_schemas, mutating_policies, policy_bindings, priority_levels,
    resource_quotas, service_ranges, signing_requests, validating_policies, webhooks,
};
pub(crate) use self::devices::{device_classes, resource_claims, resource_slices};
pub(crate) use self::ingress::{ingress_classes, ingresses, network_policies};
pub(crate) use self::networking::{endpoint_slices, endpoints, services};
pub(crate) use self::nodes::{nodes, runtime_classes};
pub(crate) use self::pods::pods;
pub(crate) use self::rbac::role_bindings;
pub(crate) use self::scaling::{horizontal_pod_autoscalers, pod_templates};
pub(crate) use self::storage::{
    claims, csi_drivers, csi_nodes, storage_classes, volume_attachments, volume_attributes_classes, volumes,
};
pub(crate) use self::workloads::{
    controller_revisions, cron_jobs, daemon_sets, deployments, disruption_budgets, jobs, replica_sets, stateful_sets,
};
use super::age;
use crate::resource::{Column, Printer};
use crate::selector::text_of;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";
const UNKNOWN: &str = "<unknown>";

/// The column with the name.
const NAME: (&str, &str, i32) = ("Name", "string", 0);
/// The column with the age.
const AGE: (&str, &str, i32) = ("Age", "string", 0);

/// Columns by name, type and priority.
pub(super) fn columns(columns: &[(&str, &str, i32)]) -> Vec<Column> {
    columns
        .iter()
        .map(|(name, type_, priority)| Column {
            name: (*name).to_owned(),
            type_: (*type_).to_owned(),
            format: if *name == "Name" {
                "name".to_owned()
            } else {
                String::new()
            },
            description: String::new(),
            priority: *priority,
            json_path: String::new(),
        })
        .collect()
}

fn printer(definitions: &[(&str, &str, i32)], cells: fn(&Value, i64) -> Vec<Value>) -> Printer {
    Printer::Cells(columns(definitions), cells)
}

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    text(object, "/metadata/name").into()
}

/// The time since the creation of the object.
pub(super) fn age(object: &Value, now_unix: i64) -> Value {
    since(object, "/metadata/creationTimestamp", now_unix).into()
}

fn since(object: &Value, pointer: &str, now_unix: i64) -> String {
    age::since(object.pointer(pointer), now_unix).unwrap_or(UNKNOWN.to_owned())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A string, or `otherwise` if absent.
fn text_or<'a>(object: &'a Value, pointer: &str, otherwise: &'a str) -> &'a str {
    match text(object, pointer) {
        "" => otherwise,
        text => text,
    }
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn is_true(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The members of a map.
fn members<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let members = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

/// The number of members of a map.
fn size(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

/// Strings joined by commas, or `otherwise` if there are none.
fn joined<'a>(texts: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    let texts: Vec<&str> = texts.into_iter().collect();
    if texts.is_empty() {
        otherwise.to_owned()
    } else {
        texts.join(",")
    }
}

/// A field of all containers of the pod template at `template`.
fn of_containers(object: &Value, template: &str, field: &str) -> Value {
    let containers = items(object, &format!("{template}/spec/containers")).iter();
    joined(containers.map(|container| text(container, field)), "").into()
}

/// The status of a condition; empty if absent.
fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let found = items(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == type_);
    found.map_or("", |condition| text(condition, "/status"))
}

/// A label selector in its text form.
fn selector(object: &Value, pointer: &str) -> String {
    match object.pointer(pointer).map(text_of) {
        Some(text) if !text.is_empty() => text,
        _ => NONE.to_owned(),
    }
}

/// A number or percentage.
fn amount(object: &Value, pointer: &str, otherwise: &str) -> String {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => otherwise.to_owned(),
    }
}
