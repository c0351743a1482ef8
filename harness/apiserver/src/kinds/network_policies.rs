//! NetworkPolicies. The server stores them; no traffic exists.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, is_set, items, items_mut, text};
use super::syntax;
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "networkpolicies",
            "io.k8s.api.networking.v1.NetworkPolicy",
        )
        .generation(Generation::Spec)
        .short(&["netpol"])
        .printer(printers::network_policies())
        .prepare(prepare)
        .validate(validate)
        .build(),
    ]
}

fn prepare(new: &mut Value, _old: Option<&Value>) {
    default(new, "/spec", "podSelector", json!({}));
    for (direction, _) in DIRECTIONS {
        for rule in items_mut(new, &format!("/spec/{direction}")) {
            for port in items_mut(rule, "/ports") {
                default(port, "", "protocol", "TCP");
            }
        }
    }
    if items(new, "/spec/policyTypes").is_empty() {
        let mut types = vec!["Ingress"];
        if !items(new, "/spec/egress").is_empty() {
            types.push("Egress");
        }
        if let Some(spec) = super::fields::object(new, "/spec") {
            spec.insert("policyTypes".to_owned(), types.into());
        }
    }
}

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selector = new.pointer("/spec/podSelector").unwrap_or(&Value::Null);
    syntax::label_selector(&mut errors, selector, "spec.podSelector");
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in items(new, &format!("/spec/{direction}")).iter().enumerate() {
            let path = format!("spec.{direction}[{index}]");
            for (index, port) in items(rule, "/ports").iter().enumerate() {
                validate_port(&mut errors, port, &format!("{path}.ports[{index}]"));
            }
            for (index, peer) in items(rule, &format!("/{peers}")).iter().enumerate() {
                validate_peer(&mut errors, peer, &format!("{path}.{peers}[{index}]"));
            }
        }
    }
    let types = items(new, "/spec/policyTypes");
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid("spec.policyTypes", types.to_vec(), why));
        return errors;
    }
    for (index, kind) in types.iter().enumerate() {
        let kind = kind.as_str().unwrap_or_default();
        if !matches!(kind, "Ingress" | "Egress") {
            let path = format!("spec.policyTypes[{index}]");
            errors.push(FieldError::not_supported(path, kind, &["Ingress", "Egress"]));
        }
    }
    errors
}

fn validate_port(errors: &mut Vec<FieldError>, port: &Value, path: &str) {
    let protocol = text(port, "/protocol");
    let supported = ["TCP", "UDP", "SCTP"];
    if !supported.contains(&protocol) {
        errors.push(FieldError::not_supported(
            format!("{path}.protocol"),
            protocol,
            &supported,
        ));
    }
    let number = port.get("port").filter(|number| is_set(Some(number)));
    syntax::port_or_name(errors, &format!("{path}.port"), number);
    let Some(end) = port.get("endPort").and_then(Value::as_i64) else {
        return;
    };
    let path = format!("{path}.endPort");
    match number {
        None => {
            let why = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(path.as_str(), end, why));
        }
        Some(Value::Number(start)) => {
            if start.as_i64().is_some_and(|start| end < start) {
                // Upstream reports the beginning of the range.
                let why = "must be greater than or equal to `port`";
                errors.push(FieldError::invalid(path.as_str(), start.clone(), why));
            }
        }
        Some(_) => {
            let why = "may not be specified when `port` is non-numeric";
            errors.push(FieldError::invalid(path.as_str(), end, why));
        }
    }
    if !(1..=65535).contains(&end) {
        errors.push(FieldError::invalid(path, end, "must be between 1 and 65535, inclusive"));
    }
}

fn validate_peer(errors: &mut Vec<FieldError>, peer: &Value, path: &str) {
    let has = |field: &str| peer.get(field).is_some_and(Value::is_object);
    for selector in ["podSelector", "namespaceSelector"] {
        let value = peer.get(selector).unwrap_or(&Value::Null);
        syntax::label_selector(errors, value, &format!("{path}.{selector}"));
    }
    let selects = has("podSelector") || has("namespaceSelector");
    match (has("ipBlock"), selects) {
        (true, true) => {
            let why = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(path, why));
        }
        (false, false) => errors.push(FieldError::required(path, "must specify a peer")),
        _ => {}
    }
    if has("ipBlock") && !selects {
        validate_block(errors, &peer["ipBlock"], &format!("{path}.ipBlock"));
    }
}

fn validate_block(errors: &mut Vec<FieldError>, block: &Value, path: &str) {
    const RULE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let text = text(block, "/cidr");
    let path_of_range = format!("{path}.cidr");
    if text.is_empty() {
        errors.push(FieldError::required(path_of_range, ""));
        return;
    }
    let Some(range) = syntax::Range::parse(text) else {
        errors.push(FieldError::invalid(path_of_range, text, RULE));
        return;
    };
    for (index, except) in items(block, "/except").iter().enumerate() {
        let (text, path) = (except.as_str().unwrap_or_default(), format!("{path}.except[{index}]"));
        match syntax::Range::parse(text) {
            None => errors.push(FieldError::invalid(path, text, RULE)),
            Some(part) if !range.strictly_contains(&part) => {
                errors.push(FieldError::invalid(path, text, "must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({ "ipBlock": { "cidr": "10.0.0.0/24", "except": ["10.0.0.0/28"] } }), &[])]
    #[case(json!({ "ipBlock": { "cidr": "10.0.0.0/24", "except": ["10.0.0.0/24"] } }), &["spec.ingress[0].from[0].ipBlock.except[0]"])]
    #[case(json!({}), &["spec.ingress[0].from[0]"])]
    fn peers_are_checked(#[case] peer: Value, #[case] expected: &[&str]) {
        let policy = json!({ "spec": { "ingress": [{ "from": [peer] }] } });
        let errors = validate(&policy, None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
