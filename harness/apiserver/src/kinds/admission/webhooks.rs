//! Configurations of mutating and validating webhooks.

use serde_json::Value;

use super::matching;
use crate::kinds::fields::{default, default_within, is_set, items, items_mut, one_of, text};
use crate::kinds::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        super::resource(
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        )
        .printer(printers::webhooks())
        .prepare(|new, _| prepare(new, true))
        .validate(|new, _| validate(new))
        .build(),
        super::resource(
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        )
        .printer(printers::webhooks())
        .prepare(|new, _| prepare(new, false))
        .validate(|new, _| validate(new))
        .build(),
    ]
}

fn prepare(new: &mut Value, mutating: bool) {
    for hook in items_mut(new, "/webhooks") {
        default(hook, "", "failurePolicy", "Fail");
        default(hook, "", "timeoutSeconds", 10);
        if mutating {
            default(hook, "", "reinvocationPolicy", "Never");
        }
        matching::prepare(hook, "", &["rules"]);
        default_within(hook, "/clientConfig/service", "port", 443);
    }
}

fn validate(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    super::expression_errors(&mut errors, crate::policies::Webhook::read_all(new).1);
    let hooks = items(new, "/webhooks");
    for (index, hook) in hooks.iter().enumerate() {
        let path = format!("webhooks[{index}]");
        validate_hook(&mut errors, hook, &path);
        let name = text(hook, "/name");
        if !name.is_empty() && hooks.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
    }
    errors
}

fn validate_hook(errors: &mut Vec<FieldError>, hook: &Value, path: &str) {
    syntax::fully_qualified_name(errors, &format!("{path}.name"), text(hook, "/name"));
    for (index, rule) in items(hook, "/rules").iter().enumerate() {
        matching::rule(errors, rule, &format!("{path}.rules[{index}]"));
    }
    matching::failure_policy(errors, hook, path);
    matching::match_policy(errors, hook, path);
    let side_effects = format!("{path}.sideEffects");
    if is_set(hook.get("sideEffects")) {
        one_of(errors, hook, "/sideEffects", &side_effects, &SIDE_EFFECTS);
    } else {
        let why = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(FieldError::required(side_effects, why));
    }
    let seconds = hook.get("timeoutSeconds").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=30).contains(&seconds) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{path}.timeoutSeconds"), seconds, why));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        matching::selector(errors, hook, selector, path);
    }
    one_of(
        errors,
        hook,
        "/reinvocationPolicy",
        &format!("{path}.reinvocationPolicy"),
        &["IfNeeded", "Never"],
    );
    validate_client(
        errors,
        hook.get("clientConfig").unwrap_or(&Value::Null),
        &format!("{path}.clientConfig"),
    );
    matching::conditions(errors, hook, path);
    validate_versions(
        errors,
        items(hook, "/admissionReviewVersions"),
        &format!("{path}.admissionReviewVersions"),
        &format!("must specify one of {}", REVIEW_VERSIONS.join(", ")),
    );
}

/// Checks where a webhook is.
pub(crate) fn validate_client(errors: &mut Vec<FieldError>, client: &Value, path: &str) {
    let (url, service) = (client.get("url"), client.get("service"));
    let given = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    if given(url) == given(service) {
        errors.push(FieldError::required(path, "exactly one of url or service is required"));
    } else if let Some(url) = url.and_then(Value::as_str) {
        syntax::webhook_url(errors, &format!("{path}.url"), url);
    } else if let Some(service) = service {
        validate_service(errors, service, &format!("{path}.service"));
    }
}

fn validate_service(errors: &mut Vec<FieldError>, service: &Value, path: &str) {
    // Upstream reports the other of the two fields.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(format!("{path}.{reported}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, why));
    }
    let url_path = text(service, "/path");
    validate_path(errors, url_path, &format!("{path}.path"));
}

fn validate_path(errors: &mut Vec<FieldError>, url: &str, path: &str) {
    if matches!(url, "" | "/") {
        return;
    }
    if url != "//" && !url.starts_with('/') {
        errors.push(FieldError::invalid(path, url, "must start with a '/'"));
    }
    let mut letters = url.chars();
    letters.next();
    let rest = letters.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            let why = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(path, url, why));
        } else if let Some(rule) = syntax::subdomain_rule(segment) {
            let why = format!("segment[{index}]: {rule}");
            errors.push(FieldError::invalid(path, url, why));
        }
    }
}

/// Checks the versions of reviews that a webhook understands; `required` is the detail of the error if there are none.
pub(crate) fn validate_versions(errors: &mut Vec<FieldError>, versions: &[Value], path: &str, required: &str) {
    if versions.is_empty() {
        errors.push(FieldError::required(path, required));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let text = version.as_str().unwrap_or_default();
        if versions.iter().take(index).any(|earlier| earlier == version) {
            errors.push(FieldError::invalid(path, text, "duplicate version"));
        } else {
            syntax::dns_1035_label(errors, &path, text);
        }
    }
    if !versions
        .iter()
        .any(|version| REVIEW_VERSIONS.iter().any(|known| version == known))
    {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, versions.to_vec(), why));
    }
}
