//! Checks how fast an autoscaler scales: the policies for both directions.

use serde_json::Value;

use crate::kinds::fields::{is_set, items, one_of, text};
use crate::status::FieldError;

/// The longest window and the longest period, in seconds.
const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;

pub(super) fn validate(errors: &mut Vec<FieldError>, autoscaler: &Value) {
    for direction in ["scaleUp", "scaleDown"] {
        let rules = autoscaler.pointer(&format!("/spec/behavior/{direction}"));
        if let Some(rules) = rules.filter(|rules| rules.is_object()) {
            validate_rules(errors, rules, &format!("spec.behavior.{direction}"));
        }
    }
}

fn validate_rules(errors: &mut Vec<FieldError>, rules: &Value, path: &str) {
    if let Some(window) = rules.get("stabilizationWindowSeconds").and_then(Value::as_i64) {
        let field = format!("{path}.stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(
                field,
                window,
                "must be greater than or equal to zero",
            ));
        } else if window > MAX_WINDOW {
            let why = format!("must be less than or equal to {MAX_WINDOW}");
            errors.push(FieldError::invalid(field, window, why));
        }
    }
    let selections = ["Disabled", "Max", "Min"];
    one_of(
        errors,
        rules,
        "/selectPolicy",
        &format!("{path}.selectPolicy"),
        &selections,
    );
    let policies = items(rules, "/policies");
    if policies.is_empty() {
        let why = "must specify at least one Policy";
        errors.push(FieldError::required(format!("{path}.policies"), why));
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_policy(errors, policy, &format!("{path}.policies[{index}]"));
    }
    let tolerance = text(rules, "/tolerance");
    if is_set(rules.get("tolerance")) && tolerance.starts_with('-') {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(format!("{path}.tolerance"), tolerance, why));
    }
}

fn validate_policy(errors: &mut Vec<FieldError>, policy: &Value, path: &str) {
    let kind = text(policy, "/type");
    if !matches!(kind, "Pods" | "Percent") {
        let supported = ["Percent", "Pods"];
        errors.push(FieldError::not_supported(format!("{path}.type"), kind, &supported));
    }
    for field in ["value", "periodSeconds"] {
        let number = policy.get(field).and_then(Value::as_i64).unwrap_or_default();
        let field_path = format!("{path}.{field}");
        if number <= 0 {
            errors.push(FieldError::invalid(field_path, number, "must be greater than zero"));
        } else if field == "periodSeconds" && number > MAX_PERIOD {
            let why = format!("must be less than or equal to {MAX_PERIOD}");
            errors.push(FieldError::invalid(field_path, number, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 15 }] }), &[])]
    #[case(json!({}), &["policies"])]
    #[case(json!({ "policies": [{ "type": "Pods", "value": 0, "periodSeconds": 1801 }] }), &["policies[0].value", "policies[0].periodSeconds"])]
    #[case(
        json!({ "stabilizationWindowSeconds": 3601, "policies": [{ "type": "Other", "value": 1, "periodSeconds": 1 }] }),
        &["stabilizationWindowSeconds", "policies[0].type"]
    )]
    fn rules_are_checked(#[case] rules: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate(&mut errors, &json!({ "spec": { "behavior": { "scaleUp": rules } } }));
        let prefix = "spec.behavior.scaleUp.";
        let fields: Vec<&str> = errors
            .iter()
            .map(|error| error.field.strip_prefix(prefix).unwrap())
            .collect();
        assert_eq!(fields, expected);
    }
}
