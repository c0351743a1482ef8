//! Matching of selectors, node affinity terms and tolerations, as specified in their API documentation.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration, TopologySelectorTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Whether a selector selects these labels. An empty selector selects everything.
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            holds(labels.get(&requirement.key), &requirement.operator, values)
        })
}

/// Whether a node selector selects a node: one of its terms must match.
pub fn selects_node(selector: &NodeSelector, name: &str, labels: &Labels) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| term_selects_node(term, name, labels))
}

/// Whether a term matches a node. A term without requirements matches nothing.
pub fn term_selects_node(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let requirement_holds = |requirement: &NodeSelectorRequirement, value: Option<&String>| {
        holds(
            value,
            &requirement.operator,
            requirement.values.as_deref().unwrap_or_default(),
        )
    };
    let name = name.to_owned();
    expressions
        .iter()
        .all(|requirement| requirement_holds(requirement, labels.get(&requirement.key)))
        && fields
            .iter()
            .all(|requirement| requirement.key == "metadata.name" && requirement_holds(requirement, Some(&name)))
}

/// The node names to which `metadata.name` fields restrict a selector; `None` when a term has no such field.
pub fn named_nodes(selector: &NodeSelector) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for term in &selector.node_selector_terms {
        let field = term
            .match_fields
            .iter()
            .flatten()
            .find(|field| field.key == "metadata.name" && field.operator == "In")?;
        names.extend(field.values.iter().flatten().map(String::as_str));
    }
    Some(names)
}

/// Whether a node is in one of the topologies; an empty list allows all nodes.
pub fn in_topologies(terms: &[TopologySelectorTerm], labels: &Labels) -> bool {
    terms.is_empty()
        || terms.iter().any(|term| {
            term.match_label_expressions.iter().flatten().all(|requirement| {
                labels
                    .get(&requirement.key)
                    .is_some_and(|value| requirement.values.contains(value))
            })
        })
}

fn holds(found: Option<&String>, operator: &str, values: &[String]) -> bool {
    let compares = |wanted: std::cmp::Ordering| {
        let number = |text: &String| text.parse::<i64>().ok();
        match (found.and_then(number), values.first().and_then(number)) {
            (Some(found), Some(bound)) => found.cmp(&bound) == wanted,
            _ => false,
        }
    };
    match operator {
        "In" => found.is_some_and(|found| values.contains(found)),
        "NotIn" => !found.is_some_and(|found| values.contains(found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compares(std::cmp::Ordering::Greater),
        "Lt" => compares(std::cmp::Ordering::Less),
        _ => false,
    }
}

/// Whether one of the tolerations tolerates the taint.
pub fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if set(&toleration.effect).is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if set(&toleration.key).is_some_and(|key| key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn labels() -> Labels {
        serde_json::from_value(json!({ "zone": "a", "cores": "8" })).unwrap()
    }

    #[rstest]
    #[case("zone", "In", json!(["a", "b"]), true)]
    #[case("zone", "In", json!(["b"]), false)]
    #[case("other", "In", json!(["b"]), false)]
    #[case("zone", "NotIn", json!(["b"]), true)]
    #[case("other", "NotIn", json!(["b"]), true)]
    #[case("zone", "NotIn", json!(["a"]), false)]
    #[case("zone", "Exists", json!([]), true)]
    #[case("other", "Exists", json!([]), false)]
    #[case("other", "DoesNotExist", json!([]), true)]
    #[case("zone", "DoesNotExist", json!([]), false)]
    #[case("cores", "Gt", json!(["4"]), true)]
    #[case("cores", "Gt", json!(["8"]), false)]
    #[case("cores", "Lt", json!(["16"]), true)]
    #[case("zone", "Lt", json!(["16"]), false)]
    fn requirements_on_labels(
        #[case] key: &str,
        #[case] operator: &str,
        #[case] values: Value,
        #[case] expected: bool,
    ) {
        let term = json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        let term: NodeSelectorTerm = serde_json::from_value(term).unwrap();
        assert_eq!(term_selects_node(&term, "n", &labels()), expected);
    }

    #[rstest]
    #[case(json!({}), false)]
    #[case(json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }), true)]
    #[case(json!({ "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["n"] }] }), false)]
    #[case(json!({ "matchFields": [{ "key": "metadata.uid", "operator": "In", "values": ["n"] }] }), false)]
    fn requirements_on_fields(#[case] term: Value, #[case] expected: bool) {
        let term: NodeSelectorTerm = serde_json::from_value(term).unwrap();
        assert_eq!(term_selects_node(&term, "n", &labels()), expected);
    }

    #[test]
    fn terms_that_all_name_nodes_restrict_to_those() {
        let by_name =
            |name: &str| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }] });
        let both: NodeSelector =
            serde_json::from_value(json!({ "nodeSelectorTerms": [by_name("a"), by_name("b")] })).unwrap();
        assert_eq!(named_nodes(&both), Some(vec!["a", "b"]));
        let zone = json!({ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] });
        let one: NodeSelector = serde_json::from_value(json!({ "nodeSelectorTerms": [by_name("a"), zone] })).unwrap();
        assert_eq!(named_nodes(&one), None);
    }

    #[rstest]
    #[case(json!({ "operator": "Exists" }), true)]
    #[case(json!({ "key": "k", "operator": "Exists" }), true)]
    #[case(json!({ "key": "k", "value": "v" }), true)]
    #[case(json!({ "key": "k", "value": "w" }), false)]
    #[case(json!({ "key": "other", "operator": "Exists" }), false)]
    #[case(json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" }), false)]
    #[case(json!({ "key": "k", "operator": "Exists", "effect": "NoSchedule" }), true)]
    fn tolerations_tolerate_taints(#[case] toleration: Value, #[case] expected: bool) {
        let taint: Taint = serde_json::from_value(json!({ "key": "k", "value": "v", "effect": "NoSchedule" })).unwrap();
        let toleration: Toleration = serde_json::from_value(toleration).unwrap();
        assert_eq!(tolerated(&taint, &[toleration]), expected);
    }
}
