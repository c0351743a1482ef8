//! Nodes: defaults, the taint of new ones, checks. RuntimeClasses.

use quantity::Quantity;
use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{immutable, items, members, object, same, text};
use super::syntax;
use crate::resource::{Resource, Subresource};
use crate::status::FieldError;
use crate::table::printers;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Node", "nodes", "io.k8s.api.core.v1.Node")
            .cluster()
            .short(&["no"])
            .status()
            .subresource(Subresource::Connect {
                name: "proxy",
                kind: "NodeProxyOptions",
            })
            .selectable("spec.unschedulable", "/spec/unschedulable", "false")
            .printer(printers::nodes())
            .prepare(prepare)
            .validate(validate)
            .build(),
        ResourceBuilder::new(
            "node.k8s.io/v1",
            "RuntimeClass",
            "runtimeclasses",
            "io.k8s.api.node.v1.RuntimeClass",
        )
        .cluster()
        .requires_version()
        .printer(printers::runtime_classes())
        .validate(validate_runtime_class)
        .build(),
    ]
}

fn validate_runtime_class(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    syntax::dns_label(&mut errors, "handler", text(new, "/handler"));
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/handler");
    }
    errors
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        taint_as_not_ready(new);
    }
    if let Some(capacity) = new
        .pointer("/status/capacity")
        .filter(|_| new.pointer("/status/allocatable").is_none())
    {
        let capacity = capacity.clone();
        if let Some(status) = object(new, "/status") {
            status.insert("allocatable".to_owned(), capacity);
        }
    }
    mirror_pod_ranges(new);
}

/// Acts as the admission plugin TaintNodesByCondition: the scheduler places no pods on a new node before its first
/// ready state.
fn taint_as_not_ready(node: &mut Value) {
    let found = items(node, "/spec/taints")
        .iter()
        .any(|taint| text(taint, "/key") == NOT_READY && text(taint, "/effect") == "NoSchedule");
    if found {
        return;
    }
    let taint = json!({ "key": NOT_READY, "effect": "NoSchedule" });
    if let Some(spec) = object(node, "/spec") {
        let taints = spec.entry("taints").or_insert(Value::Null);
        match taints {
            Value::Array(taints) => taints.push(taint),
            Value::Null => *taints = json!([taint]),
            _ => {}
        }
    }
}

/// `podCIDR` is the first of `podCIDRs`, regardless of which one the client wrote.
fn mirror_pod_ranges(node: &mut Value) {
    let one = text(node, "/spec/podCIDR").to_owned();
    let first = text(node, "/spec/podCIDRs/0").to_owned();
    let Some(spec) = object(node, "/spec") else { return };
    if one.is_empty() && !first.is_empty() {
        spec.insert("podCIDR".to_owned(), first.into());
    } else if first.is_empty() && !one.is_empty() {
        spec.insert("podCIDRs".to_owned(), json!([one]));
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_taints(&mut errors, items(new, "/spec/taints"));
    validate_ranges(&mut errors, items(new, "/spec/podCIDRs"));
    let addresses = items(new, "/status/addresses");
    for (index, address) in addresses.iter().enumerate() {
        if addresses.iter().take(index).any(|earlier| earlier == address) {
            errors.push(FieldError::duplicate(
                format!("status.addresses[{index}]"),
                address.clone(),
            ));
        }
    }
    for list in ["capacity", "allocatable"] {
        for (name, value) in members(new, &format!("/status/{list}")) {
            let path = format!("status.{list}.{name}");
            syntax::qualified_name(&mut errors, &path, name);
            let amount: Option<Quantity> = value.as_str().and_then(|text| text.parse().ok());
            if amount.is_some_and(|amount| amount.milli() < 0) {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(path, value.clone(), why));
            }
        }
    }
    if let Some(old) = old {
        validate_update(&mut errors, new, old);
    }
    errors
}

/// The ranges of a node's pods: one of each family.
fn validate_ranges(errors: &mut Vec<FieldError>, ranges: &[Value]) {
    for (index, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default();
        if syntax::Range::parse(text).is_none() {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), text, why));
        }
    }
    let of_ipv6 = |range: &Value| range.as_str().is_some_and(|text| text.contains(':'));
    let is_valid = match ranges {
        [] | [_] => true,
        [one, other] => of_ipv6(one) != of_ipv6(other),
        _ => false,
    };
    if !is_valid {
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid("spec.podCIDRs", ranges.to_vec(), why));
    }
}

fn validate_taints(errors: &mut Vec<FieldError>, taints: &[Value]) {
    // Upstream's errors name the metadata.
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let (key, effect) = (text(taint, "/key"), text(taint, "/effect"));
        syntax::qualified_name(errors, &format!("{path}.key"), key);
        syntax::label_value(errors, &format!("{path}.value"), text(taint, "/value"));
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{path}.effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(format!("{path}.effect"), effect, &EFFECTS));
        }
        let same = |earlier: &Value| text(earlier, "/key") == key && text(earlier, "/effect") == effect;
        if taints.iter().take(index).any(same) {
            let mut error = FieldError::duplicate(path, taint.clone());
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

fn validate_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    const ONCE: [(&str, &str); 2] = [("podCIDRs", "podCIDR"), ("providerID", "providerID")];
    for (field, word) in ONCE {
        let before = old.pointer(&format!("/spec/{field}"));
        if !same(before, None) && !same(before, new.pointer(&format!("/spec/{field}"))) {
            let detail = format!("node updates may not change {word} except from \"\" to valid");
            errors.push(FieldError::forbidden(format!("spec.{field}"), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_new_node_is_tainted_and_offers_its_capacity() {
        let mut node = json!({ "spec": { "podCIDR": "10.0.0.0/24" }, "status": { "capacity": { "cpu": "4" } } });
        prepare(&mut node, None);
        let taint = json!({ "key": NOT_READY, "effect": "NoSchedule" });
        assert_eq!(
            node,
            json!({
                "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "taints": [taint] },
                "status": { "capacity": { "cpu": "4" }, "allocatable": { "cpu": "4" } },
            })
        );
        let once = node.clone();
        prepare(&mut node, None);
        assert_eq!(node, once);
    }

    #[rstest]
    #[case(json!({ "key": "a", "effect": "NoSchedule" }), &[])]
    #[case(json!({ "key": "a" }), &["metadata.taints[0].effect: Required value"])]
    #[case(
        json!({ "key": "a", "effect": "Never" }),
        &[r#"metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#]
    )]
    fn taints_are_checked(#[case] taint: Value, #[case] expected: &[&str]) {
        let node = json!({ "spec": { "taints": [taint] } });
        let errors: Vec<String> = validate(&node, None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn taints_are_unique_by_key_and_effect() {
        let taint = json!({ "key": "a", "effect": "NoSchedule" });
        let node = json!({ "spec": { "taints": [taint, taint] } });
        let errors = validate(&node, None);
        let [error] = errors.as_slice() else {
            panic!("{errors:?}")
        };
        assert!(
            error
                .to_string()
                .ends_with("taints must be unique by key and effect pair"),
            "{error}"
        );
    }

    #[test]
    fn a_provider_id_is_set_once() {
        let without = json!({ "spec": {} });
        let with = json!({ "spec": { "providerID": "fake:///a" } });
        let other = json!({ "spec": { "providerID": "fake:///b" } });
        assert_eq!(validate(&with, Some(&without)), []);
        let errors: Vec<String> = validate(&other, Some(&with)).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [r#"spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#]
        );
    }
}
