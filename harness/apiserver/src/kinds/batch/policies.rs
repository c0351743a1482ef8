//! Checks when a job fails or succeeds as a whole: the rules about its failed pods, and about its indexes.

use serde_json::Value;

use crate::kinds::fields::{is_set, items, text};
use crate::kinds::syntax;
use crate::status::FieldError;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
/// The largest number of indexes that can fail, or run at once.
const MAX_INDEXES: i64 = 100_000;
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks the numbers and policies of a job that depend on its indexes, and its failure policy.
pub(super) fn validate(errors: &mut Vec<FieldError>, job: &Value, path: &str) {
    let number = |field: &str| job.get(field).and_then(Value::as_i64);
    let indexed = text(job, "/completionMode") == "Indexed";
    if number("maxFailedIndexes").is_some() && number("backoffLimitPerIndex").is_none() {
        let why = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(format!("{path}.backoffLimitPerIndex"), why));
    }
    if indexed {
        validate_indexes(errors, job, path);
    }
    if let Some(policy) = job.get("podFailurePolicy").filter(|policy| policy.is_object()) {
        validate_failures(errors, job, policy, &format!("{path}.podFailurePolicy.rules"));
    }
    if let Some(policy) = job.get("successPolicy").filter(|policy| policy.is_object()) {
        let path = format!("{path}.successPolicy");
        if indexed {
            validate_success(errors, job, policy, &format!("{path}.rules"));
        } else {
            let why = "requires indexed completion mode";
            errors.push(FieldError::invalid(path, policy.clone(), why));
        }
    }
}

fn validate_indexes(errors: &mut Vec<FieldError>, job: &Value, path: &str) {
    let number = |field: &str| job.get(field).and_then(Value::as_i64);
    if let Some(parallelism) = number("parallelism").filter(|number| *number > MAX_INDEXES) {
        let why = format!("must be less than or equal to {MAX_INDEXES} when completion mode is Indexed");
        errors.push(FieldError::invalid(format!("{path}.parallelism"), parallelism, why));
    }
    let Some(failed) = number("maxFailedIndexes") else {
        return;
    };
    let field = format!("{path}.maxFailedIndexes");
    if number("completions").is_some_and(|completions| failed > completions) {
        let why = "must be less than or equal to completions";
        errors.push(FieldError::invalid(field.as_str(), failed, why));
    }
    if failed > MAX_INDEXES {
        let why = format!("must be less than or equal to {MAX_INDEXES}");
        errors.push(FieldError::invalid(field, failed, why));
    }
}

fn validate_failures(errors: &mut Vec<FieldError>, job: &Value, policy: &Value, path: &str) {
    let rules = items(policy, "/rules");
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(path, rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_failure(errors, job, rule, &format!("{path}[{index}]"));
    }
}

fn validate_failure(errors: &mut Vec<FieldError>, job: &Value, rule: &Value, path: &str) {
    let action = text(rule, "/action");
    let field = format!("{path}.action");
    match action {
        "" => errors.push(FieldError::required(
            field,
            "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
        )),
        "FailIndex" if !is_set(job.get("backoffLimitPerIndex")) => {
            let why = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid(field, action, why));
        }
        action if !ACTIONS.contains(&action) => errors.push(FieldError::not_supported(field, action, &ACTIONS)),
        _ => {}
    }
    let codes = rule.get("onExitCodes").filter(|codes| codes.is_object());
    let conditions = items(rule, "/onPodConditions");
    if let Some(codes) = codes {
        validate_exit_codes(errors, job, codes, &format!("{path}.onExitCodes"));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}.onPodConditions[{index}]");
        syntax::qualified_name(errors, &format!("{path}.type"), text(condition, "/type"));
        let statuses = ["False", "True", "Unknown"];
        let status = text(condition, "/status");
        if !statuses.contains(&status) {
            errors.push(FieldError::not_supported(format!("{path}.status"), status, &statuses));
        }
    }
    let why = match (codes.is_some(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError {
        value: None,
        ..FieldError::invalid(path, Value::Null, why)
    });
}

fn validate_exit_codes(errors: &mut Vec<FieldError>, job: &Value, codes: &Value, path: &str) {
    let operator = text(codes, "/operator");
    if !matches!(operator, "In" | "NotIn") {
        let supported = ["In", "NotIn"];
        errors.push(FieldError::not_supported(
            format!("{path}.operator"),
            operator,
            &supported,
        ));
    }
    let container = text(codes, "/containerName");
    let mut containers = items(job, "/template/spec/containers")
        .iter()
        .chain(items(job, "/template/spec/initContainers"));
    if !container.is_empty() && !containers.any(|known| text(known, "/name") == container) {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(format!("{path}.containerName"), container, why));
    }
    let values: Vec<i64> = items(codes, "/values").iter().filter_map(Value::as_i64).collect();
    let list = format!("{path}.values");
    if values.is_empty() {
        let why = "at least one value is required";
        errors.push(FieldError::invalid(list.as_str(), codes["values"].clone(), why));
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(list.as_str(), values.len(), MAX_EXIT_CODES));
    }
    for (index, value) in values.iter().enumerate() {
        let path = format!("{list}[{index}]");
        if operator == "In" && *value == 0 {
            let why = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(path.as_str(), *value, why));
        }
        if values.iter().take(index).any(|earlier| earlier == value) {
            errors.push(FieldError::duplicate(path, *value));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(list, codes["values"].clone(), "must be ordered"));
    }
}

fn validate_success(errors: &mut Vec<FieldError>, job: &Value, policy: &Value, path: &str) {
    let rules = items(policy, "/rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(path, why));
    }
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(path, rules.len(), MAX_RULES));
    }
    let completions = job.get("completions").and_then(Value::as_i64).unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let count = rule.get("succeededCount").and_then(Value::as_i64);
        if count.is_none() && !is_set(rule.get("succeededIndexes")) {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(FieldError::required(path.as_str(), why));
        }
        let field = format!("{path}.succeededCount");
        match count {
            Some(count) if count < 0 => {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(field, count, why));
            }
            Some(count) if count > completions => {
                let why = format!("must be less than or equal to {completions} (the number of specified completions)");
                errors.push(FieldError::invalid(field, count, why));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn rule(change: Value) -> Value {
        json!({ "podFailurePolicy": { "rules": [change] } })
    }

    #[rstest]
    #[case(rule(json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [1, 2] } })), &[])]
    #[case(rule(json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [2, 0] } })), &["values[1]", "values"])]
    #[case(rule(json!({ "action": "Count", "onExitCodes": { "operator": "NotIn", "values": [] } })), &["values"])]
    #[case(rule(json!({ "action": "Count" })), &["rules[0]"])]
    #[case(rule(json!({ "action": "FailIndex", "onPodConditions": [{ "type": "A", "status": "True" }] })), &["action"])]
    #[case(json!({ "successPolicy": { "rules": [{ "succeededCount": 1 }] } }), &["successPolicy"])]
    #[case(json!({ "completionMode": "Indexed", "completions": 2, "successPolicy": { "rules": [] } }), &["rules"])]
    #[case(
        json!({ "completionMode": "Indexed", "completions": 2, "successPolicy": { "rules": [{ "succeededCount": 3 }] } }),
        &["succeededCount"]
    )]
    #[case(
        json!({ "completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3 }),
        &["maxFailedIndexes"]
    )]
    fn policies_are_checked(#[case] job: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate(&mut errors, &job, "spec");
        let fields: Vec<&str> = errors
            .iter()
            .map(|error| error.field.rsplit('.').next().unwrap_or_default())
            .collect();
        assert_eq!(fields, expected);
    }
}
