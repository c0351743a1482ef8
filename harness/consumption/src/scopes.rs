//! The scopes of a quota: the pods to which it applies.

use serde_json::Value;

use crate::{Counted, items, text};

/// Whether an object is in all scopes of a quota. Objects other than pods are in none.
pub(super) fn contain(resource: Counted<'_>, quota: &Value, object: &Value) -> bool {
    let selectors = items(quota, "/spec/scopeSelector/matchExpressions");
    let mut scopes = items(quota, "/spec/scopes").iter().chain(selectors);
    scopes.all(|scope| resource.is_core("pods") && contains(scope, object))
}

/// A scope is a name, or a selector with a name.
fn contains(scope: &Value, pod: &Value) -> bool {
    let name = scope.as_str().unwrap_or_else(|| text(scope, "/scopeName"));
    let ends = pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64) >= Some(0);
    let best_effort = text(pod, "/status/qosClass") == "BestEffort";
    match name {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => has_class(scope, text(pod, "/spec/priorityClassName")),
        "CrossNamespacePodAffinity" => crosses_namespaces(pod),
        _ => false,
    }
}

fn has_class(scope: &Value, class: &str) -> bool {
    let listed = items(scope, "/values").iter().any(|value| value == class);
    match text(scope, "/operator") {
        "In" => !class.is_empty() && listed,
        "NotIn" => !listed,
        "DoesNotExist" => class.is_empty(),
        _ => !class.is_empty(),
    }
}

fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !items(term, "/namespaces").is_empty() || term.get("namespaceSelector").is_some_and(Value::is_object)
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let list = |name: &str| {
            items(
                pod,
                &format!("/spec/affinity/{kind}/{name}DuringSchedulingIgnoredDuringExecution"),
            )
            .iter()
        };
        let preferred = list("preferred").filter_map(|weighted| weighted.get("podAffinityTerm"));
        list("required").chain(preferred).any(crosses)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!("Terminating"), json!({ "spec": { "activeDeadlineSeconds": 5 } }), true)]
    #[case(json!("Terminating"), json!({ "spec": {} }), false)]
    #[case(json!("NotTerminating"), json!({ "spec": {} }), true)]
    #[case(json!("BestEffort"), json!({ "status": { "qosClass": "BestEffort" } }), true)]
    #[case(json!("NotBestEffort"), json!({ "status": { "qosClass": "BestEffort" } }), false)]
    #[case(json!("PriorityClass"), json!({ "spec": { "priorityClassName": "a" } }), true)]
    #[case(json!({ "scopeName": "PriorityClass", "operator": "In", "values": ["b"] }), json!({ "spec": { "priorityClassName": "a" } }), false)]
    #[case(json!({ "scopeName": "PriorityClass", "operator": "NotIn", "values": ["b"] }), json!({ "spec": { "priorityClassName": "a" } }), true)]
    #[case(json!({ "scopeName": "PriorityClass", "operator": "DoesNotExist" }), json!({ "spec": {} }), true)]
    #[case(
        json!("CrossNamespacePodAffinity"),
        json!({ "spec": { "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "namespaces": ["a"] }] } } } }),
        true
    )]
    #[case(json!("Other"), json!({}), false)]
    fn a_scope_contains_pods(#[case] scope: Value, #[case] pod: Value, #[case] expected: bool) {
        assert_eq!(contains(&scope, &pod), expected);
    }
}
