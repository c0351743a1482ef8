//! Node eligibility: where a daemon pod should start, and where it may continue to run.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};

use crate::workloads::meta;

/// The eligibility of a node for a daemon pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The node should run a pod.
    Wanted,
    /// An existing pod may continue; no new pod starts (`NoSchedule` taint).
    Kept,
    /// The node must not run a pod.
    Excluded,
}

/// The eligibility of `node` for pods with this spec, which includes the DaemonSet's default tolerations.
pub fn eligibility(spec: &PodSpec, node: &Node) -> Eligibility {
    let name = meta::name(&node.metadata);
    let named = spec.node_name.as_deref().unwrap_or_default();
    if !(named.is_empty() || named == name) || !matches_selectors(spec, node) {
        return Eligibility::Excluded;
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let untolerated = |effect: &str| {
        taints
            .iter()
            .any(|taint| taint.effect == effect && !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    if untolerated("NoExecute") {
        Eligibility::Excluded
    } else if untolerated("NoSchedule") {
        Eligibility::Kept
    } else {
        Eligibility::Wanted
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    let taint_value = text(&taint.value);
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => text(&toleration.value) == taint_value,
        "Exists" => true,
        "Lt" => numbers(&taint_value, &text(&toleration.value)).is_some_and(|(taint, own)| taint < own),
        "Gt" => numbers(&taint_value, &text(&toleration.value)).is_some_and(|(taint, own)| taint > own),
        _ => false,
    }
}

fn numbers(one: &str, other: &str) -> Option<(i64, i64)> {
    Some((one.parse().ok()?, other.parse().ok()?))
}

fn matches_selectors(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let by_labels = spec
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| label(key) == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let by_affinity = required.is_none_or(|required| {
        required
            .node_selector_terms
            .iter()
            .any(|term| matches_term(term, &label, meta::name(&node.metadata)))
    });
    by_labels && by_affinity
}

/// An empty term matches nothing.
fn matches_term<'a>(term: &NodeSelectorTerm, label: &impl Fn(&str) -> Option<&'a str>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions
        .iter()
        .all(|requirement| matches_requirement(requirement, label(&requirement.key)))
        && fields
            .iter()
            .all(|requirement| requirement.key == "metadata.name" && matches_requirement(requirement, Some(name)))
}

fn matches_requirement(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let compared = |holds: fn(i64, i64) -> bool| {
        values
            .first()
            .and_then(|bound| numbers(value?, bound))
            .is_some_and(|(value, bound)| holds(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}
