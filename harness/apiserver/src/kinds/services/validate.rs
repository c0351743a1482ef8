//! Checks services.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{balancer, is_external, is_headless, needs_health_check};
use crate::kinds::fields::{is_set, items, members, one_of, same, text};
use crate::kinds::syntax;
use crate::status::FieldError;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const IP_RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_families(&mut errors, new);
    if !errors.is_empty() {
        // As upstream, which allocates addresses first.
        return errors;
    }
    if let Some(old) = old {
        validate_update(&mut errors, new, old);
    }
    validate_type(&mut errors, new);
    validate_ports(&mut errors, new);
    for (key, value) in members(new, "/spec/selector") {
        syntax::label_key(&mut errors, "spec.selector", key);
        syntax::label_value(&mut errors, "spec.selector", value.as_str().unwrap_or_default());
    }
    validate_affinity(&mut errors, new);
    validate_addresses(&mut errors, new);
    one_of(&mut errors, new, "/spec/type", "spec.type", &TYPES);
    validate_node_ports(&mut errors, new);
    balancer::validate(&mut errors, new);
    validate_policies(&mut errors, new);
    errors
}

/// There is one range of addresses, of IPv4.
fn validate_families(errors: &mut Vec<FieldError>, new: &Value) {
    let is_free =
        is_headless(new) && items(new, "/spec/selector").is_empty() && same(new.pointer("/spec/selector"), None);
    if is_free || text(new, "/spec/type") == "ExternalName" {
        return;
    }
    let (policy, families) = (text(new, "/spec/ipFamilyPolicy"), items(new, "/spec/ipFamilies"));
    let mut refuse = |why: &str| errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy, why));
    if policy == "SingleStack" && families.len() == 2 {
        refuse("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified");
        return;
    }
    if policy == "RequireDualStack" {
        refuse("this cluster is not configured for dual-stack services");
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        let path = format!("spec.ipFamilies[{index}]");
        errors.push(FieldError::invalid(
            path,
            family.clone(),
            "not configured on this cluster",
        ));
    }
}

fn addresses(service: &Value) -> &[Value] {
    items(service, "/spec/clusterIPs")
}

/// The primary address does not change, unless the type changes from or to an external name.
fn validate_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    const PATH: &str = "spec.clusterIPs";
    let external = |service: &Value| text(service, "/spec/type") == "ExternalName";
    let stays_headless = is_headless(new) && is_headless(old);
    if !(external(new) || external(old) || stays_headless) {
        let (now, before) = (addresses(new), addresses(old));
        if now.is_empty() && !before.is_empty() {
            let why = "primary clusterIP can not be unset";
            errors.push(FieldError::invalid(format!("{PATH}[0]"), json!([]), why));
        } else {
            for (index, (now_address, before)) in now.iter().zip(before).enumerate() {
                if now_address != before {
                    let path = format!("{PATH}[{index}]");
                    errors.push(FieldError::invalid(path, now.to_vec(), "may not change once set"));
                }
            }
        }
    }
    let balances = |service: &Value| text(service, "/spec/type") == "LoadBalancer";
    let class = "/spec/loadBalancerClass";
    if balances(new) && balances(old) && !same(new.pointer(class), old.pointer(class)) {
        let value = new.pointer(class).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            "spec.loadBalancerClass",
            value,
            "may not change once set",
        ));
    }
    let port = "/spec/healthCheckNodePort";
    if needs_health_check(new) && needs_health_check(old) && !same(new.pointer(port), old.pointer(port)) {
        errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
}

fn validate_type(errors: &mut Vec<FieldError>, new: &Value) {
    let kind = text(new, "/spec/type");
    if items(new, "/spec/ports").is_empty() && !is_headless(new) && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(new) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", why));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if is_set(new.pointer(&format!("/spec/{field}"))) {
                    let why = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(format!("spec.{field}"), why));
                }
            }
            let name = text(new, "/spec/externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            } else {
                syntax::dns_subdomain(errors, "spec.externalName", name);
            }
        }
        _ => {}
    }
}

fn validate_ports(errors: &mut Vec<FieldError>, new: &Value) {
    let ports = items(new, "/spec/ports");
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            syntax::dns_label(errors, &format!("{path}.name"), name);
        } else if ports.len() > 1 {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        if !name.is_empty() && ports.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        port_number(errors, port.get("port"), &format!("{path}.port"));
        one_of(errors, port, "/protocol", &format!("{path}.protocol"), &PROTOCOLS);
        let protocol = text(port, "/appProtocol");
        if !protocol.is_empty() {
            syntax::qualified_name(errors, &format!("{path}.appProtocol"), protocol);
        }
        syntax::port_or_name(errors, &format!("{path}.targetPort"), port.get("targetPort"));
    }
}

fn port_number(errors: &mut Vec<FieldError>, port: Option<&Value>, path: &str) {
    let number = port.and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&number) {
        errors.push(FieldError::invalid(
            path,
            number,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

fn validate_affinity(errors: &mut Vec<FieldError>, new: &Value) {
    one_of(
        errors,
        new,
        "/spec/sessionAffinity",
        "spec.sessionAffinity",
        &["ClientIP", "None"],
    );
    let has_config = is_set(new.pointer("/spec/sessionAffinityConfig"));
    if text(new, "/spec/sessionAffinity") == "None" && has_config {
        let why = "must not be set when session affinity is None";
        errors.push(FieldError::forbidden("spec.sessionAffinityConfig", why));
        return;
    }
    let seconds = new
        .pointer("/spec/sessionAffinityConfig/clientIP/timeoutSeconds")
        .and_then(Value::as_i64);
    if let Some(seconds) = seconds
        && !(1..=86_400).contains(&seconds)
    {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let why = "must be greater than 0 and less than 86400";
        errors.push(FieldError::invalid(path, seconds, why));
    }
}

fn validate_addresses(errors: &mut Vec<FieldError>, new: &Value) {
    const PATH: &str = "spec.clusterIPs";
    if text(new, "/spec/type") == "ExternalName" {
        return;
    }
    let (one, all) = (text(new, "/spec/clusterIP"), addresses(new));
    match (one.is_empty(), all.first()) {
        (false, None) => errors.push(FieldError::required(PATH, "")),
        (false, Some(first)) if first != one => {
            errors.push(FieldError::invalid(
                PATH,
                all.to_vec(),
                "first value must match `clusterIP`",
            ));
        }
        (true, Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(PATH, all.to_vec(), why));
        }
        _ => {}
    }
    let families = items(new, "/spec/ipFamilies");
    for (index, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{index}]");
        if !matches!(family.as_str(), Some("IPv4" | "IPv6")) {
            errors.push(FieldError::not_supported(
                path.as_str(),
                family.clone(),
                &["IPv4", "IPv6"],
            ));
        }
        if families.iter().take(index).any(|earlier| earlier == family) {
            errors.push(FieldError::duplicate(path, family.clone()));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    one_of(errors, new, "/spec/ipFamilyPolicy", "spec.ipFamilyPolicy", &policies);
    for (index, address) in all.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if index == 0 && text == "None" {
            if all.len() > 1 {
                let why = "'None' must be the first and only value";
                errors.push(FieldError::invalid(PATH, all.to_vec(), why));
            }
        } else if text.parse::<IpAddr>().is_err() {
            errors.push(FieldError::invalid(format!("{PATH}[{index}]"), text, IP_RULE));
        }
    }
    if all.len() > 2 {
        errors.push(FieldError::invalid(PATH, all.to_vec(), "may only hold up to 2 values"));
    }
    for (index, address) in items(new, "/spec/externalIPs").iter().enumerate() {
        let (text, path) = (
            address.as_str().unwrap_or_default(),
            format!("spec.externalIPs[{index}]"),
        );
        match text.parse::<IpAddr>() {
            Err(_) => errors.push(FieldError::invalid(path, text, IP_RULE)),
            Ok(address) if address.is_unspecified() => {
                let why = format!("may not be unspecified ({text})");
                errors.push(FieldError::invalid(path, text, why));
            }
            Ok(address) if address.is_loopback() => {
                let why = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
                errors.push(FieldError::invalid(path, text, why));
            }
            Ok(_) => {}
        }
    }
}

fn validate_node_ports(errors: &mut Vec<FieldError>, new: &Value) {
    let ports = items(new, "/spec/ports");
    let number = |port: &Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
    let of = |port: &Value| (text(port, "/protocol").to_owned(), number(port));
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| number(port) != 0) {
        let path = format!("spec.ports[{index}].nodePort");
        if text(new, "/spec/type") == "ClusterIP" {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(path.as_str(), why));
        }
        if ports.iter().take(index).any(|earlier| of(earlier) == of(port)) {
            errors.push(FieldError::duplicate(path, number(port)));
        }
    }
    let key = |port: &Value| (text(port, "/protocol").to_owned(), port.get("port").cloned());
    for (index, port) in ports.iter().enumerate() {
        if ports.iter().take(index).any(|earlier| key(earlier) == key(port)) {
            let (protocol, number) = key(port);
            let shown = json!({ "port": number, "protocol": protocol, "targetPort": 0 });
            errors.push(FieldError::duplicate(format!("spec.ports[{index}]"), shown));
        }
    }
}

fn validate_policies(errors: &mut Vec<FieldError>, new: &Value) {
    const EXTERNAL: &str = "spec.externalTrafficPolicy";
    let policies = ["Cluster", "Local"];
    if is_external(new) {
        one_of(errors, new, "/spec/externalTrafficPolicy", EXTERNAL, &policies);
    } else if is_set(new.pointer("/spec/externalTrafficPolicy")) {
        let why = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(
            EXTERNAL,
            text(new, "/spec/externalTrafficPolicy"),
            why,
        ));
    }
    let port = new
        .pointer("/spec/healthCheckNodePort")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if port != 0 && !needs_health_check(new) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid("spec.healthCheckNodePort", port, why));
    }
    let internal = "spec.internalTrafficPolicy";
    one_of(errors, new, "/spec/internalTrafficPolicy", internal, &policies);
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    one_of(
        errors,
        new,
        "/spec/trafficDistribution",
        "spec.trafficDistribution",
        &distributions,
    );
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({ "ports": [] }), &["spec.ports"])]
    #[case(json!({ "type": "ExternalName" }), &["spec.externalName"])]
    #[case(json!({ "type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"] }), &["spec.clusterIPs[0]"])]
    #[case(json!({ "ports": [{ "port": 80, "nodePort": 30000 }] }), &["spec.ports[0].nodePort"])]
    #[case(
        json!({ "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 80 }] }),
        &["spec.ports[1]"]
    )]
    #[case(json!({ "clusterIP": "x", "clusterIPs": ["x"] }), &["spec.clusterIPs[0]"])]
    #[case(json!({ "loadBalancerClass": "a" }), &["spec.loadBalancerClass"])]
    #[case(json!({ "externalTrafficPolicy": "Local" }), &["spec.externalTrafficPolicy"])]
    fn services_are_checked(#[case] change: Value, #[case] expected: &[&str]) {
        let mut service = json!({ "spec": { "type": "ClusterIP", "ports": [{ "port": 80, "targetPort": 80 }] } });
        service["spec"]
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        for port in service["spec"]["ports"].as_array_mut().unwrap() {
            port["targetPort"] = 80.into();
        }
        let errors = validate(&service, None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
