//! APIServices: which group versions are served. The server keeps one for each that it serves itself, and stores those
//! of clients.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default_within, is_set, text};
use super::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "apiregistration.k8s.io/v1",
            "APIService",
            "apiservices",
            "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        )
        .cluster()
        .categories(&["api-extensions"])
        .status()
        .requires_version()
        .printer(printers::api_services())
        .prepare(prepare)
        .validate(validate)
        .build(),
    ]
}

/// The registration of a group version that the server serves itself. `label` names its manager.
pub(crate) fn local(group: &str, version: &str, priorities: (u32, u32), label: &str) -> Value {
    let (group_priority, version_priority) = priorities;
    let mut spec = json!({
        "groupPriorityMinimum": group_priority, "version": version, "versionPriority": version_priority,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": { "kube-aggregator.kubernetes.io/automanaged": label },
        },
        "spec": spec,
    })
}

fn prepare(new: &mut Value, _old: Option<&Value>) {
    default_within(new, "/spec/service", "port", 443);
}

/// A local service is available at once.
pub(crate) fn mark_available(service: &mut Value, now: &str) {
    let status = match service.pointer("/spec/service").is_some_and(Value::is_object) {
        true => json!({}),
        false => json!({ "conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": now,
            "reason": "Local", "message": "Local APIServices are always available",
        }] }),
    };
    service["status"] = status;
}

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (group, version) = (text(new, "/spec/group"), text(new, "/spec/version"));
    let wanted = format!("{version}.{group}");
    let name = text(new, "/metadata/name");
    if name != wanted && !name.is_empty() {
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", why));
    }
    if !group.is_empty() {
        syntax::dns_subdomain(&mut errors, "spec.group", group);
    }
    syntax::dns_1035_label(&mut errors, "spec.version", version);
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = new
            .pointer(&format!("/spec/{field}"))
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if !(1..=most).contains(&number) {
            let why = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(format!("spec.{field}"), number, why));
        }
    }
    validate_target(&mut errors, new);
    errors
}

fn validate_target(errors: &mut Vec<FieldError>, new: &Value) {
    const SKIP: &str = "spec.insecureSkipTLSVerify";
    let bundle = text(new, "/spec/caBundle");
    let skips = new.pointer("/spec/insecureSkipTLSVerify").and_then(Value::as_bool) == Some(true);
    let Some(service) = new.pointer("/spec/service").filter(|service| service.is_object()) else {
        if is_set(new.pointer("/spec/caBundle")) {
            let bytes = bundle.trim_end_matches('=').len().saturating_mul(3) / 4;
            let why = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid("spec.caBundle", format!("{bytes} bytes"), why));
        }
        if skips {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(SKIP, true, why));
        }
        return;
    };
    for field in ["namespace", "name"] {
        if text(service, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{field}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid("spec.service.port", port, why));
    }
    if skips && !bundle.is_empty() {
        errors.push(FieldError::invalid(
            SKIP,
            true,
            "may not be true if caBundle is present",
        ));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({ "group": "" }), &["metadata.name"])]
    #[case(json!({ "versionPriority": 0 }), &["spec.versionPriority"])]
    #[case(json!({ "insecureSkipTLSVerify": true }), &["spec.insecureSkipTLSVerify"])]
    #[case(json!({ "service": { "port": 443 } }), &["spec.service.namespace", "spec.service.name"])]
    fn registrations_are_checked(#[case] change: Value, #[case] expected: &[&str]) {
        let mut service = local("example.com", "v1", (1000, 100), "true");
        service["spec"]
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let errors = validate(&service, None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
