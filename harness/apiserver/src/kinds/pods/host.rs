//! Checks what a pod shares with its host or asks of it: namespaces, DNS settings, the operating system; and its
//! readiness gates.

use serde_json::Value;

use crate::kinds::fields::{is_set, items, text};
use crate::kinds::syntax;
use crate::status::FieldError;

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;

pub(super) fn validate(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    validate_dns(errors, spec, &format!("{path}.dnsConfig"));
    validate_namespaces(errors, spec, path);
    let system = text(spec, "/os/name");
    if spec.get("os").is_some_and(Value::is_object) && system.is_empty() {
        errors.push(FieldError::required(format!("{path}.os.name"), ""));
    } else if !matches!(system, "" | "linux" | "windows") {
        let supported = ["linux", "windows"];
        errors.push(FieldError::not_supported(format!("{path}.os"), system, &supported));
    }
    for (index, gate) in items(spec, "/readinessGates").iter().enumerate() {
        let path = format!("{path}.readinessGates[{index}].conditionType");
        syntax::qualified_name(errors, &path, text(gate, "/conditionType"));
    }
}

fn validate_dns(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let config = spec.get("dnsConfig").filter(|config| config.is_object());
    let of_none = text(spec, "/dnsPolicy") == "None";
    let Some(config) = config else {
        if of_none {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(path, why));
        }
        return;
    };
    let (servers, searches) = (items(config, "/nameservers"), items(config, "/searches"));
    if of_none && servers.is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(format!("{path}.nameservers"), why));
        return;
    }
    if servers.len() > MAX_NAMESERVERS {
        let why = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.push(FieldError::invalid(
            format!("{path}.nameservers"),
            servers.to_vec(),
            why,
        ));
    }
    for (index, server) in servers.iter().enumerate() {
        let path = format!("{path}.nameservers[{index}]");
        syntax::ip_address(errors, &path, server.as_str().unwrap_or_default());
    }
    if searches.len() > MAX_SEARCH_PATHS {
        let why = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        errors.push(FieldError::invalid(format!("{path}.searches"), searches.to_vec(), why));
    }
    for (index, option) in items(config, "/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            let path = format!("{path}.options[{index}]");
            errors.push(FieldError::required(path, "must not be empty"));
        }
    }
}

fn validate_namespaces(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let flag = |field: &str| spec.get(field).and_then(Value::as_bool);
    if flag("shareProcessNamespace") == Some(true) && flag("hostPID") == Some(true) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(
            format!("{path}.securityContext.shareProcessNamespace"),
            true,
            why,
        ));
    }
    if flag("hostUsers") == Some(false) {
        for (field, name) in [
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        ] {
            if flag(field) == Some(true) {
                let why = "when `hostUsers` is false";
                errors.push(FieldError::forbidden(format!("{path}.{name}"), why));
            }
        }
    }
}

/// Only init containers that keep running have probes and hooks.
pub(super) fn validate_init_container(errors: &mut Vec<FieldError>, container: &Value, path: &str) {
    if text(container, "/restartPolicy") == "Always" {
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if is_set(container.get(field)) {
            let why = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(format!("{path}.{field}"), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "dnsConfig": { "nameservers": ["10.0.0.1"], "options": [{ "name": "ndots" }] } }), &[])]
    #[case(json!({ "dnsPolicy": "None" }), &["spec.dnsConfig"])]
    #[case(json!({ "dnsPolicy": "None", "dnsConfig": {} }), &["spec.dnsConfig.nameservers"])]
    #[case(json!({ "dnsConfig": { "nameservers": ["x"], "options": [{}] } }), &["spec.dnsConfig.nameservers[0]", "spec.dnsConfig.options[0]"])]
    #[case(json!({ "os": { "name": "plan9" } }), &["spec.os"])]
    #[case(json!({ "readinessGates": [{ "conditionType": "a b" }] }), &["spec.readinessGates[0].conditionType"])]
    #[case(json!({ "shareProcessNamespace": true, "hostPID": true }), &["spec.securityContext.shareProcessNamespace"])]
    #[case(json!({ "hostUsers": false, "hostNetwork": true }), &["spec.hostNetwork"])]
    fn the_host_is_shared_within_limits(#[case] spec: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate(&mut errors, &spec, "spec");
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }

    #[rstest]
    #[case(json!({ "readinessProbe": { "exec": {} } }), &["c.readinessProbe"])]
    #[case(json!({ "restartPolicy": "Always", "readinessProbe": { "exec": {} } }), &[])]
    fn only_sidecars_are_probed(#[case] container: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate_init_container(&mut errors, &container, "c");
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
