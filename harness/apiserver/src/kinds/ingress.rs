//! Ingresses and their classes. The server stores them; no traffic exists.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, is_set, items, text};
use super::syntax;
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    let resource = |kind, plural, type_| {
        ResourceBuilder::new("networking.k8s.io/v1", kind, plural, type_).generation(Generation::Spec)
    };
    vec![
        resource("Ingress", "ingresses", "io.k8s.api.networking.v1.Ingress")
            .short(&["ing"])
            .status()
            .printer(printers::ingresses())
            .prepare(prepare_ingress)
            .validate(validate_ingress)
            .build(),
        resource(
            "IngressClass",
            "ingressclasses",
            "io.k8s.api.networking.v1.IngressClass",
        )
        .cluster()
        .printer(printers::ingress_classes())
        .prepare(prepare_class)
        .validate(validate_class)
        .build(),
    ]
}

fn prepare_ingress(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        default(new, "/status", "loadBalancer", json!({}));
    }
}

fn validate_ingress(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rules = items(new, "/spec/rules");
    let fallback = new
        .pointer("/spec/defaultBackend")
        .filter(|backend| backend.is_object());
    if rules.is_empty() && fallback.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", Value::Null, detail));
    }
    if let Some(backend) = fallback {
        validate_backend(&mut errors, backend, "spec.defaultBackend");
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        validate_host(&mut errors, text(rule, "/host"), &format!("{path}.host"), true);
        if rule.get("http").is_some_and(Value::is_object) && items(rule, "/http/paths").is_empty() {
            errors.push(FieldError::required(format!("{path}.http.paths"), ""));
        }
        for (number, rule) in items(rule, "/http/paths").iter().enumerate() {
            validate_path(&mut errors, rule, &format!("{path}.http.paths[{number}]"));
        }
    }
    let class = text(new, "/spec/ingressClassName");
    if !class.is_empty() {
        syntax::dns_subdomain(&mut errors, "spec.ingressClassName", class);
    }
    for (index, tls) in items(new, "/spec/tls").iter().enumerate() {
        for (number, host) in items(tls, "/hosts").iter().enumerate() {
            let path = format!("spec.tls[{index}].hosts[{number}]");
            validate_host(&mut errors, host.as_str().unwrap_or_default(), &path, false);
        }
        let secret = text(tls, "/secretName");
        if !secret.is_empty() {
            syntax::dns_subdomain(&mut errors, &format!("spec.tls[{index}].secretName"), secret);
        }
    }
    let annotated = text(new, "/metadata/annotations/kubernetes.io~1ingress.class");
    if old.is_none() && !annotated.is_empty() && !class.is_empty() && annotated != class {
        let why = "must match `ingressClassName` when both are specified";
        let path = "annotations.kubernetes.io/ingress.class";
        errors.push(FieldError::invalid(path, annotated, why));
    }
    errors
}

fn validate_host(errors: &mut Vec<FieldError>, host: &str, path: &str, can_be_address: bool) {
    const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
        which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
        '*.example.com', regex used for validation is \
        '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    if host.is_empty() {
        return;
    }
    if can_be_address && host.parse::<std::net::IpAddr>().is_ok() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    } else if host.contains('*') {
        let good = host.strip_prefix("*.").is_some_and(crate::syntax::is_dns_subdomain);
        if !good {
            errors.push(FieldError::invalid(path, host, WILDCARD));
        }
    } else {
        syntax::dns_subdomain(errors, path, host);
    }
}

fn validate_path(errors: &mut Vec<FieldError>, path: &Value, field: &str) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    const SEQUENCES: [&str; 7] = ["//", "/./", "/../", "%2f", "%2F", "/..", "/."];
    let (kind, value) = (text(path, "/pathType"), text(path, "/path"));
    match kind {
        "" if path.get("pathType").is_some() => {
            errors.push(FieldError::not_supported(format!("{field}.pathType"), "", &TYPES));
        }
        "" => {
            errors.push(FieldError::required(
                format!("{field}.pathType"),
                "pathType must be specified",
            ));
            return;
        }
        "Exact" | "Prefix" => {
            if !value.starts_with('/') {
                let why = "must be an absolute path";
                errors.push(FieldError::invalid(format!("{field}.path"), value, why));
            }
            let (inside, at_end) = SEQUENCES.split_at(5);
            for sequence in inside.iter().filter(|sequence| value.contains(**sequence)) {
                let why = format!("must not contain '{sequence}'");
                errors.push(FieldError::invalid(format!("{field}.path"), value, why));
            }
            for sequence in at_end.iter().filter(|sequence| value.ends_with(**sequence)) {
                let why = format!("cannot end with '{sequence}'");
                errors.push(FieldError::invalid(format!("{field}.path"), value, why));
            }
        }
        kind if !TYPES.contains(&kind) => {
            errors.push(FieldError::not_supported(format!("{field}.pathType"), kind, &TYPES));
        }
        _ if !value.is_empty() && !value.starts_with('/') => {
            let why = "must be an absolute path";
            errors.push(FieldError::invalid(format!("{field}.path"), value, why));
        }
        _ => {}
    }
    let backend = path.get("backend").unwrap_or(&Value::Null);
    validate_backend(errors, backend, &format!("{field}.backend"));
}

fn validate_backend(errors: &mut Vec<FieldError>, backend: &Value, field: &str) {
    let of = |name: &str| backend.get(name).filter(|value| value.is_object());
    match (of("service"), of("resource")) {
        (Some(_), Some(_)) => {
            let why = "cannot set both resource and service backends";
            errors.push(FieldError::invalid(field, "", why));
        }
        (None, None) => {
            let why = "resource or service backend is required";
            errors.push(FieldError::invalid(field, "", why));
        }
        (None, Some(_)) => {}
        (Some(service), None) => {
            let name = text(service, "/name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{field}.service.name"), ""));
            } else {
                syntax::dns_label(errors, &format!("{field}.service.name"), name);
            }
            let number = service
                .pointer("/port/number")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            let port = text(service, "/port/name");
            match (port.is_empty(), number) {
                (true, 0) => errors.push(FieldError::required(field, "port name or number is required")),
                (false, 0) => syntax::port_name(errors, &format!("{field}.service.port.name"), port),
                (false, _) => {
                    let why = "cannot set both port name & port number";
                    errors.push(FieldError::invalid(field, "", why));
                }
                (true, number) if !(1..=65535).contains(&number) => {
                    let why = "must be between 1 and 65535, inclusive";
                    errors.push(FieldError::invalid(format!("{field}.service.port.number"), number, why));
                }
                (true, _) => {}
            }
        }
    }
}

fn prepare_class(new: &mut Value, _old: Option<&Value>) {
    if is_set(new.pointer("/spec/parameters")) {
        default(new, "/spec/parameters", "scope", "Cluster");
    }
}

fn validate_class(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let controller = text(new, "/spec/controller");
    if controller
        .split_once('/')
        .is_none_or(|(domain, path)| domain.is_empty() || path.is_empty())
    {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid("spec.controller", controller, detail));
    }
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/spec/controller");
    }
    errors
}
