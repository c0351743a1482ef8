//! Policies in CEL and their bindings.

use serde_json::Value;

use super::matching;
use crate::kinds::fields::{default, is_set, items, one_of, text};
use crate::kinds::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
/// The operations that a policy can mutate.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        super::resource(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        )
        .status()
        .printer(printers::validating_policies())
        .prepare(|new, old| {
            prepare_policy(new);
            if old.is_none() {
                default(new, "", "status", serde_json::json!({}));
            }
        })
        .validate(validate_validating)
        .build(),
        super::resource(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        )
        .printer(printers::policy_bindings())
        .prepare(|new, _| prepare_binding(new))
        .validate(|new, _| validate_binding(new, true))
        .build(),
        super::resource(
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        )
        .printer(printers::mutating_policies())
        .prepare(|new, _| prepare_policy(new))
        .validate(|new, _| validate_mutating(new))
        .build(),
        super::resource(
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
        )
        .printer(printers::policy_bindings())
        .prepare(|new, _| prepare_binding(new))
        .validate(|new, _| validate_binding(new, false))
        .build(),
    ]
}

fn prepare_policy(new: &mut Value) {
    default(new, "/spec", "failurePolicy", "Fail");
    prepare_constraints(new, "/spec/matchConstraints");
}

fn prepare_binding(new: &mut Value) {
    prepare_constraints(new, "/spec/matchResources");
}

fn prepare_constraints(new: &mut Value, pointer: &str) {
    if new.pointer(pointer).is_some_and(Value::is_object) {
        matching::prepare(new, pointer, &["resourceRules", "excludeResourceRules"]);
    }
}

/// What policies of both kinds have.
fn validate_policy(errors: &mut Vec<FieldError>, spec: &Value) {
    matching::failure_policy(errors, spec, "spec");
    if let Some(kind) = spec.get("paramKind").filter(|kind| kind.is_object()) {
        validate_param_kind(errors, kind);
    }
    match spec
        .get("matchConstraints")
        .filter(|constraints| constraints.is_object())
    {
        None => errors.push(FieldError::required("spec.matchConstraints", "")),
        Some(constraints) => {
            matching::constraints(errors, constraints, "spec.matchConstraints");
            if items(constraints, "/resourceRules").is_empty() {
                errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
            }
        }
    }
    matching::conditions(errors, spec, "spec");
    for (index, variable) in items(spec, "/variables").iter().enumerate() {
        for field in ["name", "expression"] {
            if text(variable, &format!("/{field}")).trim().is_empty() {
                let why = format!("{field} is not specified");
                errors.push(FieldError::required(format!("spec.variables[{index}].{field}"), why));
            }
        }
    }
}

fn validate_param_kind(errors: &mut Vec<FieldError>, kind: &Value) {
    const PATH: &str = "spec.paramKind";
    let version = text(kind, "/apiVersion");
    match version.matches('/').count() {
        _ if version.is_empty() => errors.push(FieldError::required(format!("{PATH}.apiVersion"), "")),
        0 => syntax::dns_1035_label(errors, &format!("{PATH}.apiVersion"), version),
        1 => {
            let (group, number) = version.split_once('/').unwrap_or_default();
            syntax::dns_subdomain(errors, &format!("{PATH}.apiVersion"), group);
            if number.is_empty() {
                errors.push(FieldError::invalid(
                    format!("{PATH}.apiVersion"),
                    version,
                    "version must be specified",
                ));
            } else {
                syntax::dns_1035_label(errors, &format!("{PATH}.apiVersion"), number);
            }
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(format!("{PATH}.apiVersion"), version, why));
        }
    }
    if text(kind, "/kind").is_empty() {
        errors.push(FieldError::required(format!("{PATH}.kind"), ""));
    }
}

fn validate_validating(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = new.get("spec").unwrap_or(&Value::Null);
    // Old objects stay valid: only their status changes.
    if old.is_some_and(|old| old.get("spec") == new.get("spec")) {
        return errors;
    }
    validate_policy(&mut errors, spec);
    let (validations, annotations) = (items(spec, "/validations"), items(spec, "/auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", why));
        errors.push(FieldError::required("spec.auditAnnotations", why));
    }
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(&mut errors, validation, &format!("spec.validations[{index}]"));
    }
    super::expression_errors(&mut errors, crate::policies::Policy::read(new).1);
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        let key = text(annotation, "/key");
        if text(annotation, "/valueExpression").trim().is_empty() {
            errors.push(FieldError::required(format!("{path}.valueExpression"), ""));
        }
        if annotations
            .iter()
            .take(index)
            .any(|earlier| text(earlier, "/key") == key)
        {
            errors.push(FieldError::duplicate(format!("{path}.key"), key));
        }
    }
    errors
}

fn validate_validation(errors: &mut Vec<FieldError>, validation: &Value, path: &str) {
    const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    if text(validation, "/expression").trim().is_empty() {
        errors.push(FieldError::required(
            format!("{path}.expression"),
            "expression is not specified",
        ));
    }
    let expression = text(validation, "/messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let path = format!("{path}.messageExpression");
        errors.push(FieldError::invalid(path, expression, "must be non-empty if specified"));
    }
    let message = text(validation, "/message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(
            format!("{path}.message"),
            message,
            "must be non-empty if specified",
        ));
    } else if message.trim().contains('\n') {
        errors.push(FieldError::invalid(
            format!("{path}.message"),
            message,
            "must not contain line breaks",
        ));
    }
    one_of(errors, validation, "/reason", &format!("{path}.reason"), &REASONS);
}

fn validate_mutating(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = new.get("spec").unwrap_or(&Value::Null);
    super::expression_errors(&mut errors, crate::policies::MutatingPolicy::read(new).1);
    validate_policy(&mut errors, spec);
    only_mutable(&mut errors, spec, "matchConstraints");
    let mutations = items(spec, "/mutations");
    if mutations.is_empty() {
        errors.push(FieldError::required(
            "spec.mutations",
            "mutations must contain at least one item",
        ));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        validate_mutation(&mut errors, mutation, &format!("spec.mutations[{index}]"));
    }
    const POLICY: &str = "spec.reinvocationPolicy";
    if is_set(spec.get("reinvocationPolicy")) {
        one_of(&mut errors, spec, "/reinvocationPolicy", POLICY, &["IfNeeded", "Never"]);
    } else {
        errors.push(FieldError::required(POLICY, ""));
    }
    errors
}

fn validate_mutation(errors: &mut Vec<FieldError>, mutation: &Value, path: &str) {
    const PATCHES: [(&str, &str); 2] = [("JSONPatch", "jsonPatch"), ("ApplyConfiguration", "applyConfiguration")];
    let kind = text(mutation, "/patchType");
    let Some((_, own)) = PATCHES.iter().find(|(name, _)| *name == kind) else {
        errors.push(match kind {
            "" => FieldError::required(format!("{path}.patchType"), ""),
            kind => FieldError::not_supported(format!("{path}.patchType"), kind, &["ApplyConfiguration", "JSONPatch"]),
        });
        return;
    };
    for (_, field) in &PATCHES {
        let value = mutation.get(*field).filter(|value| value.is_object());
        match (field == own, value) {
            (true, None) => {
                let why = format!("must be specified when patchType is {kind}");
                errors.push(FieldError::required(format!("{path}.{field}"), why));
            }
            (true, Some(patch)) if text(patch, "/expression").trim().is_empty() => {
                errors.push(FieldError::required(format!("{path}.{field}.expression"), ""));
            }
            (false, Some(_)) => {
                let why = format!("must not be specified when patchType is {kind}");
                errors.push(FieldError::invalid(
                    format!("{path}.{field}"),
                    format!("{{{field}}}"),
                    why,
                ));
            }
            _ => {}
        }
    }
}

fn only_mutable(errors: &mut Vec<FieldError>, spec: &Value, constraints: &str) {
    for rule in items(spec, &format!("/{constraints}/resourceRules")) {
        for operation in items(rule, "/operations") {
            let operation = operation.as_str().unwrap_or_default();
            if !MUTABLE.contains(&operation) {
                let path = format!("spec.{constraints}.resourceRules.operations");
                errors.push(FieldError::not_supported(path, operation, &MUTABLE));
            }
        }
    }
}

fn validate_binding(new: &Value, validating: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = new.get("spec").unwrap_or(&Value::Null);
    let policy = text(spec, "/policyName");
    if policy.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        syntax::dns_subdomain(&mut errors, "spec.policyName", policy);
    }
    if let Some(reference) = spec.get("paramRef").filter(|reference| reference.is_object()) {
        validate_param_ref(&mut errors, reference);
    }
    if let Some(constraints) = spec.get("matchResources").filter(|constraints| constraints.is_object()) {
        matching::constraints(&mut errors, constraints, "spec.matchResources");
    }
    if validating {
        validate_actions(&mut errors, items(spec, "/validationActions"));
    } else {
        only_mutable(&mut errors, spec, "matchResources");
    }
    errors
}

fn validate_param_ref(errors: &mut Vec<FieldError>, reference: &Value) {
    const PATH: &str = "spec.paramRef";
    let name = text(reference, "/name");
    let has_selector = reference.get("selector").is_some_and(Value::is_object);
    if has_selector {
        matching::selector(errors, reference, "selector", PATH);
    }
    match (name.is_empty(), has_selector) {
        (false, true) => {
            for field in ["name", "selector"] {
                let why = "name and selector are mutually exclusive";
                errors.push(FieldError::forbidden(format!("{PATH}.{field}"), why));
            }
        }
        (true, false) => {
            errors.push(FieldError::required(PATH, "one of name or selector must be specified"));
        }
        _ => {}
    }
    let action = format!("{PATH}.parameterNotFoundAction");
    if is_set(reference.get("parameterNotFoundAction")) {
        one_of(
            errors,
            reference,
            "/parameterNotFoundAction",
            &action,
            &["Deny", "Allow"],
        );
    } else {
        errors.push(FieldError::required(action, ""));
    }
}

fn validate_actions(errors: &mut Vec<FieldError>, actions: &[Value]) {
    const PATH: &str = "spec.validationActions";
    for (index, action) in actions.iter().enumerate() {
        let text = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&text) {
            errors.push(FieldError::not_supported(format!("{PATH}[{index}]"), text, &ACTIONS));
        }
        if actions.iter().take(index).any(|earlier| earlier == action) {
            errors.push(FieldError::duplicate(format!("{PATH}[{index}]"), text));
        }
    }
    let has = |name: &str| actions.iter().any(|action| action == name);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
            response and headers serves no purpose)";
        errors.push(FieldError::invalid(PATH, actions.to_vec(), why));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(PATH, "at least one validation action is required"));
    }
}
