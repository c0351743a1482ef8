//! The allowed updates of a pod's spec.

use serde_json::Value;

use super::placement::validate_toleration;
use crate::kinds::fields::{items, items_mut, members, object, same, text};
use crate::status::FieldError;

const REFUSAL: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let (Some(new), Some(old)) = (new.get("spec"), old.get("spec")) else {
        return;
    };
    if new == old {
        return;
    }
    let lists = ["containers", "initContainers"];
    for list in lists {
        if items(new, &format!("/{list}")).len() != items(old, &format!("/{list}")).len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{list}"), why));
        }
    }
    if !errors.is_empty() {
        return;
    }
    validate_deadline(errors, new, old);
    validate_tolerations(errors, new, old);
    validate_gates(errors, new, old);
    validate_narrowing(errors, new, old);
    if !same(Some(&fixed_part(new, old)), Some(old)) {
        errors.push(FieldError::forbidden("spec", REFUSAL));
    }
}

/// The new spec with the old values of all mutable fields.
fn fixed_part(new: &Value, old: &Value) -> Value {
    let mut fixed = new.clone();
    for list in ["containers", "initContainers"] {
        let before = items(old, &format!("/{list}"));
        for (container, before) in items_mut(&mut fixed, &format!("/{list}")).iter_mut().zip(before) {
            put_back(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put_back(&mut fixed, old, field);
    }
    let seconds = |spec: &Value| {
        spec.get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    if seconds(old) < 0 && seconds(new) == 1 {
        put_back(&mut fixed, old, "terminationGracePeriodSeconds");
    }
    if is_gated(old) {
        put_back(&mut fixed, old, "nodeSelector");
        let affinity = old.pointer("/affinity/nodeAffinity").cloned();
        let others = |spec: &Value| {
            ["podAffinity", "podAntiAffinity"].map(|kind| spec.pointer(&format!("/affinity/{kind}")).cloned())
        };
        if others(new) == others(old) {
            put_back(&mut fixed, old, "affinity");
        } else if let Some(members) = object(&mut fixed, "/affinity") {
            members.insert("nodeAffinity".to_owned(), affinity.unwrap_or_default());
        }
    }
    fixed
}

fn is_gated(spec: &Value) -> bool {
    !items(spec, "/schedulingGates").is_empty()
}

/// The nodes of a gated pod can be narrowed down, before it is scheduled.
fn validate_narrowing(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    const TERMS: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    if !is_gated(old) {
        return;
    }
    let selector = new.get("nodeSelector").unwrap_or(&Value::Null);
    if members(old, "/nodeSelector").any(|(key, value)| selector.get(key) != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", selector.clone(), why));
    }
    let (terms, before) = (items(new, TERMS), items(old, TERMS));
    let path = format!("spec{}", TERMS.replace('/', "."));
    if !before.is_empty() && before.len() != terms.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, terms.to_vec(), why));
        return;
    }
    for (index, (term, before)) in terms.iter().zip(before).enumerate() {
        let keeps = |list: &str| items(term, list).starts_with(items(before, list));
        if !(keeps("/matchExpressions") && keeps("/matchFields")) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), term.clone(), why));
        }
    }
}

fn put_back(new: &mut Value, old: &Value, field: &str) {
    let Some(members) = object(new, "") else { return };
    match old.get(field) {
        Some(value) => members.insert(field.to_owned(), value.clone()),
        None => members.remove(field),
    };
}

/// A deadline can be set and shortened.
fn validate_deadline(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let seconds = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    let Some(before) = seconds(old) else { return };
    let value = new.get("activeDeadlineSeconds").cloned().unwrap_or_default();
    let why = match seconds(new) {
        None => "must not update from a positive integer to nil value",
        Some(now) if now > before => "must be less than or equal to previous value",
        Some(_) => return,
    };
    errors.push(FieldError::invalid("spec.activeDeadlineSeconds", value, why));
}

/// Tolerations can be added; of existing ones only the seconds can change.
fn validate_tolerations(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let key =
        |toleration: &Value| ["/key", "/operator", "/value", "/effect"].map(|field| text(toleration, field).to_owned());
    let tolerations = items(new, "/tolerations");
    if items(old, "/tolerations")
        .iter()
        .any(|before| tolerations.iter().all(|now| key(now) != key(before)))
    {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", why));
    }
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(errors, toleration, &format!("spec.tolerations[{index}]"));
    }
}

/// Scheduling gates can only be removed.
fn validate_gates(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let before = items(old, "/schedulingGates");
    let added = items(new, "/schedulingGates")
        .iter()
        .find(|gate| !before.contains(gate));
    if let Some(gate) = added {
        let why = format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            text(gate, "/name")
        );
        errors.push(FieldError::forbidden("spec.schedulingGates", why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(changes: Value) -> Value {
        let mut spec = json!({
            "containers": [{ "name": "c", "image": "i" }],
            "nodeName": "n",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{ "key": "k", "operator": "Exists" }],
        });
        spec.as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        json!({ "spec": spec })
    }

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({ "containers": [{ "name": "c", "image": "other" }] }), &[])]
    #[case(json!({ "activeDeadlineSeconds": 5 }), &[])]
    #[case(json!({ "tolerations": [{ "key": "k", "operator": "Exists" }, { "operator": "Exists" }] }), &[])]
    #[case(json!({ "tolerations": [] }), &["spec.tolerations"])]
    #[case(json!({ "containers": [{ "name": "d", "image": "i" }] }), &["spec"])]
    #[case(json!({ "containers": [] }), &["spec.containers"])]
    #[case(json!({ "nodeName": "other" }), &["spec"])]
    #[case(json!({ "terminationGracePeriodSeconds": 1 }), &["spec"])]
    #[case(json!({ "schedulingGates": [{ "name": "g" }] }), &["spec.schedulingGates"])]
    fn few_fields_are_mutable(#[case] changes: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate(&mut errors, &pod(changes), &pod(json!({})));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }

    #[rstest]
    #[case(json!({ "nodeSelector": { "a": "1", "b": "2" } }), &[])]
    #[case(json!({ "nodeSelector": { "a": "2" } }), &["spec.nodeSelector"])]
    #[case(json!({ "nodeSelector": null }), &["spec.nodeSelector"])]
    #[case(json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } } }), &[])]
    #[case(json!({ "affinity": { "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1 }] } } }), &["spec"])]
    fn the_nodes_of_a_gated_pod_can_be_narrowed_down(#[case] changes: Value, #[case] expected: &[&str]) {
        let gated = json!({ "schedulingGates": [{ "name": "g" }], "nodeSelector": { "a": "1" } });
        let mut changed = gated.clone();
        changed
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        let mut errors = Vec::new();
        validate(&mut errors, &pod(changed), &pod(gated));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
