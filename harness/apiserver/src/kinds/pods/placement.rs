//! Checks where a pod may run: affinity, spreading, gates and tolerations.

use serde_json::Value;

use crate::kinds::fields::{is_set, items, one_of, text};
use crate::kinds::syntax;
use crate::status::FieldError;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the placement of the pod spec at `path`.
pub(super) fn validate(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    if let Some(affinity) = spec.get("affinity").filter(|affinity| affinity.is_object()) {
        validate_affinity(errors, affinity, &format!("{path}.affinity"));
    }
    for (index, toleration) in items(spec, "/tolerations").iter().enumerate() {
        validate_toleration(errors, toleration, &format!("{path}.tolerations[{index}]"));
    }
    for (index, constraint) in items(spec, "/topologySpreadConstraints").iter().enumerate() {
        validate_spread(
            errors,
            constraint,
            &format!("{path}.topologySpreadConstraints[{index}]"),
        );
    }
    let gates = items(spec, "/schedulingGates");
    for (index, gate) in gates.iter().enumerate() {
        let (name, path) = (text(gate, "/name"), format!("{path}.schedulingGates[{index}]"));
        syntax::qualified_name(errors, &path, name);
        if gates.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(path, name));
        }
    }
}

fn validate_affinity(errors: &mut Vec<FieldError>, affinity: &Value, path: &str) {
    if let Some(required) = affinity.pointer(&format!("/nodeAffinity/{REQUIRED}"))
        && required.is_object()
        && items(required, "/nodeSelectorTerms").is_empty()
    {
        let path = format!("{path}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        errors.push(FieldError::required(path, "must have at least one node selector term"));
    }
    let preferred = items(affinity, &format!("/nodeAffinity/{PREFERRED}"));
    for (index, term) in preferred.iter().enumerate() {
        validate_weight(errors, term, &format!("{path}.nodeAffinity.{PREFERRED}[{index}]"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in items(affinity, &format!("/{kind}/{REQUIRED}")).iter().enumerate() {
            validate_term(errors, term, &format!("{path}.{kind}.{REQUIRED}[{index}]"));
        }
        for (index, term) in items(affinity, &format!("/{kind}/{PREFERRED}")).iter().enumerate() {
            let path = format!("{path}.{kind}.{PREFERRED}[{index}]");
            validate_weight(errors, term, &path);
            if let Some(term) = term.get("podAffinityTerm") {
                validate_term(errors, term, &format!("{path}.podAffinityTerm"));
            }
        }
    }
}

fn validate_weight(errors: &mut Vec<FieldError>, term: &Value, path: &str) {
    let weight = term.get("weight").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(
            format!("{path}.weight"),
            weight,
            "must be in the range 1-100",
        ));
    }
}

fn validate_term(errors: &mut Vec<FieldError>, term: &Value, path: &str) {
    for selector in ["labelSelector", "namespaceSelector"] {
        let value = term.get(selector).unwrap_or(&Value::Null);
        syntax::label_selector(errors, value, &format!("{path}.{selector}"));
    }
    for namespace in items(term, "/namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        syntax::dns_label(errors, &format!("{path}.namespace"), namespace);
    }
    let (key, path) = (text(term, "/topologyKey"), format!("{path}.topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(path.as_str(), "can not be empty"));
    }
    syntax::qualified_name(errors, &path, key);
}

fn validate_spread(errors: &mut Vec<FieldError>, constraint: &Value, path: &str) {
    let skew = constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or_default();
    if skew <= 0 {
        errors.push(FieldError::invalid(
            format!("{path}.maxSkew"),
            skew,
            "must be greater than zero",
        ));
    }
    let key = text(constraint, "/topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(format!("{path}.topologyKey"), "can not be empty"));
    } else {
        syntax::qualified_name(errors, &format!("{path}.topologyKey"), key);
    }
    let action = text(constraint, "/whenUnsatisfiable");
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    if !actions.contains(&action) {
        errors.push(FieldError::not_supported(
            format!("{path}.whenUnsatisfiable"),
            action,
            &actions,
        ));
    }
    validate_domains(errors, constraint, &format!("{path}.minDomains"));
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let field = format!("/{policy}");
        one_of(
            errors,
            constraint,
            &field,
            &format!("{path}.{policy}"),
            &["Honor", "Ignore"],
        );
    }
    let selector = constraint.get("labelSelector").unwrap_or(&Value::Null);
    syntax::label_selector(errors, selector, &format!("{path}.labelSelector"));
}

fn validate_domains(errors: &mut Vec<FieldError>, constraint: &Value, path: &str) {
    let Some(domains) = constraint.get("minDomains").and_then(Value::as_i64) else {
        return;
    };
    if domains <= 0 {
        errors.push(FieldError::invalid(path, domains, "must be greater than zero"));
    }
    let action = text(constraint, "/whenUnsatisfiable");
    if action != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(path, domains, why));
    }
}

pub(super) fn validate_toleration(errors: &mut Vec<FieldError>, toleration: &Value, path: &str) {
    let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
    if !key.is_empty() {
        syntax::qualified_name(errors, &format!("{path}.key"), key);
    } else if operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(format!("{path}.operator"), operator, why));
    }
    match operator {
        "" | "Equal" => syntax::label_value(errors, &format!("{path}.value"), text(toleration, "/value")),
        "Exists" => {
            if !text(toleration, "/value").is_empty() {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(format!("{path}.operator"), toleration.clone(), why));
            }
        }
        _ => errors.push(FieldError::not_supported(
            format!("{path}.operator"),
            operator,
            &["Equal", "Exists"],
        )),
    }
    let effect = text(toleration, "/effect");
    if is_set(toleration.get("tolerationSeconds")) && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{path}.effect"), effect, why));
    }
    one_of(errors, toleration, "/effect", &format!("{path}.effect"), &EFFECTS);
}
