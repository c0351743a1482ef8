//! Which requests webhooks and policies receive: rules, selectors and match conditions.

use serde_json::{Value, json};

use crate::kinds::fields::{default, is_set, items, items_mut, one_of, text};
use crate::kinds::syntax;
use crate::status::FieldError;

const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MOST_CONDITIONS: usize = 64;

/// Sets the defaults of the selectors and rules of the object at `pointer`.
pub(super) fn prepare(new: &mut Value, pointer: &str, lists: &[&str]) {
    default(new, pointer, "matchPolicy", "Equivalent");
    for selector in ["namespaceSelector", "objectSelector"] {
        default(new, pointer, selector, json!({}));
    }
    for list in lists {
        for rule in items_mut(new, &format!("{pointer}/{list}")) {
            default(rule, "", "scope", "*");
        }
    }
}

pub(super) fn failure_policy(errors: &mut Vec<FieldError>, object: &Value, path: &str) {
    one_of(
        errors,
        object,
        "/failurePolicy",
        &format!("{path}.failurePolicy"),
        &FAILURE_POLICIES,
    );
}

pub(super) fn match_policy(errors: &mut Vec<FieldError>, object: &Value, path: &str) {
    one_of(
        errors,
        object,
        "/matchPolicy",
        &format!("{path}.matchPolicy"),
        &MATCH_POLICIES,
    );
}

/// Checks one rule with operations.
pub(super) fn rule(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let operations = items(rule, "/operations");
    required(errors, operations, &format!("{path}.operations"));
    if operations.len() > 1 && has_wildcard(operations) {
        exclusive(errors, operations, &format!("{path}.operations"), "operations");
    }
    for (index, operation) in operations.iter().enumerate() {
        let operation = operation.as_str().unwrap_or_default();
        if !OPERATIONS.contains(&operation) {
            let path = format!("{path}.operations[{index}]");
            errors.push(FieldError::not_supported(path, operation, &OPERATIONS));
        }
    }
    for (field, words) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let path = format!("{path}.{field}");
        let values = items(rule, &format!("/{field}"));
        required(errors, values, &path);
        if values.len() > 1 && has_wildcard(values) {
            exclusive(errors, values, &path, words);
        }
        for (index, value) in values.iter().enumerate() {
            if field == "apiVersions" && value == "" {
                errors.push(FieldError::required(format!("{path}[{index}]"), ""));
            }
        }
    }
    resources(errors, items(rule, "/resources"), &format!("{path}.resources"));
    one_of(errors, rule, "/scope", &format!("{path}.scope"), &SCOPES);
}

fn required(errors: &mut Vec<FieldError>, values: &[Value], path: &str) {
    if values.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
}

fn has_wildcard(values: &[Value]) -> bool {
    values.iter().any(|value| value == "*")
}

fn exclusive(errors: &mut Vec<FieldError>, values: &[Value], path: &str, words: &str) {
    let why = format!("if '*' is present, must not specify other {words}");
    errors.push(FieldError::invalid(path, values.to_vec(), why));
}

/// Resources with subresources: wildcards exclude what they contain.
fn resources(errors: &mut Vec<FieldError>, resources: &[Value], path: &str) {
    required(errors, resources, path);
    let mut all_of_resource: Vec<&str> = Vec::new();
    let mut of_all_resources: Vec<&str> = Vec::new();
    let mut is_plain = false;
    for (index, value) in resources.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let path = format!("{path}[{index}]");
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some((resource, subresource)) = value.split_once('/') else {
            is_plain = value != "*";
            continue;
        };
        if all_of_resource.contains(&resource) {
            let why = format!("if '{resource}/*' is present, must not specify {value}");
            errors.push(FieldError::invalid(path.as_str(), value, why));
        }
        if of_all_resources.contains(&subresource) {
            let why = format!("if '*/{subresource}' is present, must not specify {value}");
            errors.push(FieldError::invalid(path.as_str(), value, why));
        }
        if subresource == "*" {
            all_of_resource.push(resource);
        }
        if resource == "*" {
            of_all_resources.push(subresource);
        }
    }
    if resources.len() > 1 && resources.iter().any(|value| value == "*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, resources.to_vec(), why));
    }
    if is_plain && has_wildcard(resources) {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, resources.to_vec(), why));
    }
}

/// Checks the match constraints of a policy or binding.
pub(super) fn constraints(errors: &mut Vec<FieldError>, constraints: &Value, path: &str) {
    match_policy(errors, constraints, path);
    for selector in ["namespaceSelector", "objectSelector"] {
        self::selector(errors, constraints, selector, path);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (index, named) in items(constraints, &format!("/{list}")).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let names = items(named, "/resourceNames");
            for (index, name) in names.iter().enumerate() {
                if names.iter().take(index).any(|earlier| earlier == name) {
                    errors.push(FieldError::duplicate(
                        format!("{path}.resourceNames[{index}]"),
                        name.clone(),
                    ));
                }
            }
            rule(errors, named, &path);
        }
    }
}

/// Checks the operators of a label selector.
pub(super) fn selector(errors: &mut Vec<FieldError>, object: &Value, field: &str, path: &str) {
    syntax::label_selector(
        errors,
        object.get(field).unwrap_or(&Value::Null),
        &format!("{path}.{field}"),
    );
}

/// Checks match conditions, without their expressions.
pub(super) fn conditions(errors: &mut Vec<FieldError>, object: &Value, path: &str) {
    let conditions = items(object, "/matchConditions");
    let path = format!("{path}.matchConditions");
    if conditions.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(path.as_str(), conditions.len(), MOST_CONDITIONS));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = text(condition, "/name");
        if text(condition, "/expression").trim().is_empty() {
            errors.push(FieldError::required(format!("{path}.expression"), ""));
        }
        if is_set(condition.get("name")) {
            syntax::qualified_name(errors, &format!("{path}.name"), name);
            if conditions
                .iter()
                .take(index)
                .any(|earlier| text(earlier, "/name") == name)
            {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        } else {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn with(change: Value) -> Value {
        let mut rule = json!({
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*",
        });
        rule.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        rule
    }

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({ "operations": [] }), &["r.operations: Required value"])]
    #[case(
        json!({ "operations": ["*", "CREATE"] }),
        &[r#"r.operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations"#]
    )]
    #[case(
        json!({ "operations": ["GET"] }),
        &[r#"r.operations[0]: Unsupported value: "GET": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#]
    )]
    #[case(
        json!({ "resources": ["pods/*", "pods/exec"] }),
        &[r#"r.resources[1]: Invalid value: "pods/exec": if 'pods/*' is present, must not specify pods/exec"#]
    )]
    #[case(
        json!({ "resources": ["*", "pods"] }),
        &[r#"r.resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources"#]
    )]
    fn rules_are_checked(#[case] change: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        rule(&mut errors, &with(change), "r");
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }
}
