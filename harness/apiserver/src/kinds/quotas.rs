//! ResourceQuotas and LimitRanges. Resources, defaults and checks only: this module does not limit other objects.

use std::collections::BTreeSet;

use quantity::Quantity;
use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, items, items_mut, members, object, text};
use super::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

/// The resources that are counted in whole numbers.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// The other resources that a quota can limit.
const MEASURED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "v1",
            "ResourceQuota",
            "resourcequotas",
            "io.k8s.api.core.v1.ResourceQuota",
        )
        .short(&["quota"])
        .status()
        .returns_deleted()
        .printer(printers::resource_quotas())
        .prepare(|new, old| {
            if old.is_none() {
                default(new, "", "status", serde_json::json!({}));
            }
        })
        .validate(validate_quota)
        .build(),
        ResourceBuilder::new("v1", "LimitRange", "limitranges", "io.k8s.api.core.v1.LimitRange")
            .short(&["limits"])
            .printer(printers::created_at())
            .prepare(prepare_range)
            .validate(validate_range)
            .build(),
    ]
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.to_string().parse().ok(),
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

fn is_of_quota(name: &str) -> bool {
    COUNTED.contains(&name) || MEASURED.contains(&name) || is_huge_pages(name)
}

fn is_standard(name: &str) -> bool {
    is_of_quota(name) || name == "storage"
}

/// A resource name without a domain must be a known one.
fn resource_name(errors: &mut Vec<FieldError>, path: &str, name: &str) {
    let before = errors.len();
    syntax::qualified_name(errors, path, name);
    if errors.len() == before && !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, name, why));
    }
}

fn amounts(errors: &mut Vec<FieldError>, quota: &Value, list: &str) {
    for (name, value) in members(quota, &format!("/{}", list.replace('.', "/"))) {
        let path = format!("{list}[{name}]");
        resource_name(errors, &path, name);
        if !name.contains('/') && !is_of_quota(name) {
            errors.push(FieldError::invalid(
                path.as_str(),
                name,
                "must be a standard resource for quota",
            ));
        }
        let Some(amount) = quantity(value) else { continue };
        if amount.milli() < 0 {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path.as_str(), value.clone(), why));
        }
        if COUNTED.contains(&name) && amount.milli().rem_euclid(1000) != 0 {
            errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
        }
    }
}

/// Whether a quota with that scope can limit the resource.
fn applies(scope: &str, name: &str) -> bool {
    const COMPUTE: [&str; 6] = [
        "cpu",
        "limits.cpu",
        "limits.memory",
        "memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => name == "pods" || COMPUTE.contains(&name),
        _ => true,
    }
}

fn validate_quota(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    amounts(&mut errors, new, "spec.hard");
    validate_scopes(&mut errors, new);
    for requirement in items(new, "/spec/scopeSelector/matchExpressions") {
        validate_requirement(&mut errors, new, requirement);
    }
    amounts(&mut errors, new, "status.hard");
    amounts(&mut errors, new, "status.used");
    let set = |quota: &Value| -> BTreeSet<String> {
        let scopes = items(quota, "/spec/scopes").iter();
        scopes.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if old.is_some_and(|old| set(old) != set(new)) {
        let scopes = new.pointer("/spec/scopes").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("spec.scopes", scopes, "field is immutable"));
    }
    errors
}

fn validate_scopes(errors: &mut Vec<FieldError>, quota: &Value) {
    let scopes = items(quota, "/spec/scopes");
    let mut refuse = |why: &str| errors.push(FieldError::invalid("spec.scopes", scopes.to_vec(), why));
    for scope in scopes.iter().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            refuse("unsupported scope");
        }
        for (name, _) in members(quota, "/spec/hard") {
            if is_of_quota(name) && !applies(scope, name) {
                refuse("unsupported scope applied to resource");
            }
        }
    }
    let has = |name: &str| scopes.iter().any(|scope| scope == name);
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if has(one) && has(other) {
            refuse("conflicting scopes");
        }
    }
}

fn validate_requirement(errors: &mut Vec<FieldError>, quota: &Value, requirement: &Value) {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    let (scope, operator) = (text(requirement, "/scopeName"), text(requirement, "/operator"));
    let values = items(requirement, "/values");
    if !SCOPES.contains(&scope) {
        errors.push(FieldError::invalid(
            format!("{PATH}.scopeName"),
            scope,
            "unsupported scope",
        ));
    }
    for (name, _) in members(quota, "/spec/hard") {
        if is_of_quota(name) && !applies(scope, name) {
            let selector = quota.pointer("/spec/scopeSelector").cloned().unwrap_or_default();
            let why = "unsupported scope applied to resource";
            errors.push(FieldError::invalid(PATH, selector, why));
        }
    }
    let only_exists = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
    if only_exists && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
            ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(FieldError::invalid(format!("{PATH}.operator"), operator, why));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(FieldError::required(format!("{PATH}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(FieldError::invalid(format!("{PATH}.values"), values.to_vec(), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(format!("{PATH}.operator"), operator, why));
        }
    }
}

/// Limits of containers default to the maximum, and requests to the limit, then to the minimum.
fn prepare_range(new: &mut Value, _old: Option<&Value>) {
    for limit in items_mut(new, "/spec/limits") {
        if text(limit, "/type") != "Container" {
            continue;
        }
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let given: Vec<(String, Value)> = members(limit, &format!("/{from}"))
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect();
            if given.is_empty() {
                continue;
            }
            if let Some(target) = object(limit, &format!("/{to}")) {
                for (name, value) in given {
                    target.entry(name).or_insert(value);
                }
            }
        }
    }
}

fn validate_range(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let limits = items(new, "/spec/limits");
    for (index, limit) in limits.iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = text(limit, "/type");
        syntax::qualified_name(&mut errors, &format!("{path}.type"), kind);
        if !kind.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
            let why = "must be a standard limit type or fully qualified";
            errors.push(FieldError::invalid(format!("{path}.type"), kind, why));
        }
        if limits.iter().take(index).any(|earlier| text(earlier, "/type") == kind) {
            errors.push(FieldError::duplicate(format!("{path}.type"), kind));
        }
        validate_limit(&mut errors, limit, &path);
    }
    errors
}

fn validate_limit(errors: &mut Vec<FieldError>, limit: &Value, path: &str) {
    const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let kind = text(limit, "/type");
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for list in LISTS {
        let entries: Vec<(&str, &Value)> = members(limit, &format!("/{list}")).collect();
        if kind == "Pod" && list.starts_with("default") {
            if !entries.is_empty() {
                let why = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(format!("{path}.{list}"), why));
            }
            continue;
        }
        for (name, _) in entries {
            names.insert(name);
            let path = format!("{path}.{list}[{name}]");
            resource_name(errors, &path, name);
            let of_containers = matches!(kind, "Pod" | "Container") && !name.contains('/');
            if of_containers && !OF_CONTAINERS.contains(&name) && !is_huge_pages(name) {
                let why = "must be a standard resource for containers";
                errors.push(FieldError::invalid(path, name, why));
            }
        }
    }
    let has_storage = |list: &str| limit.pointer(&format!("/{list}/storage")).is_some();
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(format!("{path}.limits"), why));
    }
    for name in names {
        compare_amounts(errors, limit, path, name);
    }
}

/// The amounts of one resource must be in order: minimum, default request, default limit, maximum.
fn compare_amounts(errors: &mut Vec<FieldError>, limit: &Value, path: &str, name: &str) {
    const ORDER: [(&str, &str, &str, &str, &str, &str); 6] = [
        ("min", "max", "min", "min", "min value", "max value"),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "defaultRequest",
            "min value",
            "default request value",
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "max value",
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "default limit value",
        ),
        ("min", "default", "default", "min", "min value", "default value"),
        ("default", "max", "default", "max", "default value", "max value"),
    ];
    let of = |list: &str| limit.get(list).and_then(|list| list.get(name));
    for (small, large, reported, shown, small_words, large_words) in ORDER {
        let (Some(less), Some(more)) = (of(small).and_then(quantity), of(large).and_then(quantity)) else {
            continue;
        };
        if less.compare(&more).is_gt() {
            let why = format!("{small_words} {less} is greater than {large_words} {more}");
            let value = of(shown).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("{path}.{reported}[{name}]"), value, why));
        }
    }
    let Some(ratio) = of("maxLimitRequestRatio").and_then(quantity) else {
        return;
    };
    let path = format!("{path}.maxLimitRequestRatio[{name}]");
    let value = || of("maxLimitRequestRatio").cloned().unwrap_or_default();
    if ratio.milli() < 1000 {
        errors.push(FieldError::invalid(
            path.as_str(),
            value(),
            format!("ratio {ratio} is less than 1"),
        ));
    }
    if let (Some(least), Some(most)) = (of("min").and_then(quantity), of("max").and_then(quantity))
        && least.milli() > 0
    {
        let limit = most.milli() as f64 / least.milli() as f64;
        if ratio.milli() as f64 / 1000.0 > limit {
            let why = format!("ratio {ratio} is greater than max/min = {limit:.6}");
            errors.push(FieldError::invalid(path, value(), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "hard": { "pods": "10", "requests.cpu": "4", "example.com/gpu": "2" } }), &[])]
    #[case(json!({ "hard": { "pods": "1500m" } }), &[r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#])]
    #[case(
        json!({ "hard": { "cpu": "-1" } }),
        &[r#"spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0"#]
    )]
    #[case(
        json!({ "hard": { "pods": "1" }, "scopes": ["BestEffort", "NotBestEffort"] }),
        &[r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes"#]
    )]
    fn quotas_are_checked(#[case] spec: Value, #[case] expected: &[&str]) {
        let errors: Vec<String> = validate_quota(&json!({ "spec": spec }), None)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn limits_of_containers_have_defaults() {
        let mut range = json!({ "spec": { "limits": [{
            "type": "Container", "max": { "cpu": "2", "memory": "1Gi" }, "min": { "cpu": "1", "ephemeral-storage": "1" },
        }] } });
        prepare_range(&mut range, None);
        let limit = &range["spec"]["limits"][0];
        assert_eq!(limit["default"], json!({ "cpu": "2", "memory": "1Gi" }));
        assert_eq!(
            limit["defaultRequest"],
            json!({ "cpu": "2", "ephemeral-storage": "1", "memory": "1Gi" })
        );
    }

    #[rstest]
    #[case(json!({ "type": "Pod", "default": { "cpu": "1" } }), &["spec.limits[0].default"])]
    #[case(json!({ "type": "Container", "min": { "cpu": "2" }, "max": { "cpu": "1" } }), &["spec.limits[0].min[cpu]"])]
    #[case(json!({ "type": "PersistentVolumeClaim" }), &["spec.limits[0].limits"])]
    #[case(json!({ "type": "Node" }), &["spec.limits[0].type"])]
    fn limits_are_checked(#[case] limit: Value, #[case] expected: &[&str]) {
        let errors = validate_range(&json!({ "spec": { "limits": [limit] } }), None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
