//! The group networking.k8s.io: rules for traffic. The server stores them; no traffic exists.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, is_set, items, items_mut, text};
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
        resource(
            "NetworkPolicy",
            "networkpolicies",
            "io.k8s.api.networking.v1.NetworkPolicy",
        )
        .short(&["netpol"])
        .printer(printers::network_policies())
        .prepare(prepare_policy)
        .validate(validate_policy)
        .build(),
    ]
}

fn prepare_ingress(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        default(new, "/status", "loadBalancer", json!({}));
    }
}

fn validate_ingress(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rules = items(new, "/spec/rules");
    if rules.is_empty() && !is_set(new.pointer("/spec/defaultBackend")) {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", Value::Null, detail));
    }
    for (index, rule) in rules.iter().enumerate() {
        for (number, path) in items(rule, "/http/paths").iter().enumerate() {
            validate_path(&mut errors, path, &format!("spec.rules[{index}].http.paths[{number}]"));
        }
    }
    errors
}

fn validate_path(errors: &mut Vec<FieldError>, path: &Value, field: &str) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let (kind, value) = (text(path, "/pathType"), text(path, "/path"));
    match kind {
        "" => errors.push(FieldError::required(
            format!("{field}.pathType"),
            "pathType must be specified",
        )),
        "Exact" | "Prefix" if !value.starts_with('/') => {
            errors.push(FieldError::invalid(
                format!("{field}.path"),
                value,
                "must be an absolute path",
            ));
        }
        kind if !TYPES.contains(&kind) => {
            errors.push(FieldError::not_supported(format!("{field}.pathType"), kind, &TYPES));
        }
        _ => {}
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

fn prepare_policy(new: &mut Value, _old: Option<&Value>) {
    default(new, "/spec", "podSelector", json!({}));
    for direction in ["/spec/ingress", "/spec/egress"] {
        for rule in items_mut(new, direction) {
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

fn validate_policy(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let types = items(new, "/spec/policyTypes").iter().enumerate();
    let wrong = types.filter_map(|(index, kind)| {
        let kind = kind.as_str().unwrap_or_default();
        let known = matches!(kind, "Ingress" | "Egress");
        (!known).then(|| FieldError::not_supported(format!("spec.policyTypes[{index}]"), kind, &["Ingress", "Egress"]))
    });
    wrong.collect()
}
