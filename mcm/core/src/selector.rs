//! Label selectors: validation and matching.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt};

use crate::label_syntax::{key_problem, value_problem};

/// Whether the selector has no requirements, so that it would match everything.
pub fn is_empty(selector: &LabelSelector) -> bool {
    let labels = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty);
    labels && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Validates a selector: it has requirements, their keys and values can be those of labels, and its operators exist.
///
/// # Errors
/// The field below the selector, and the problem with its fix.
pub fn check(selector: &LabelSelector) -> Result<(), (&'static str, String)> {
    if is_empty(selector) {
        let text = "a selector without labels would take every machine of the namespace: name at least one label";
        return Err(("", text.to_owned()));
    }
    for (key, value) in selector.match_labels.iter().flatten() {
        if let Some(problem) = key_problem(key).or_else(|| value_problem(value)) {
            return Err((".matchLabels", format!("{key:?}: {problem}")));
        }
    }
    for requirement in selector.match_expressions.iter().flatten() {
        let value = requirement
            .values
            .iter()
            .flatten()
            .find_map(|value| value_problem(value));
        if let Some(problem) = key_problem(&requirement.key).or(value) {
            return Err((".matchExpressions", format!("{:?}: {problem}", requirement.key)));
        }
        let values = requirement.values.as_ref().map_or(0, Vec::len);
        let problem = match requirement.operator.as_str() {
            "In" | "NotIn" if values == 0 => "needs values",
            "Exists" | "DoesNotExist" if values > 0 => "takes no values",
            "In" | "NotIn" | "Exists" | "DoesNotExist" => continue,
            _ => "is unknown: use In, NotIn, Exists or DoesNotExist",
        };
        let text = format!(
            "operator {:?} of key {:?} {problem}",
            requirement.operator, requirement.key
        );
        return Err((".matchExpressions", text));
    }
    Ok(())
}

/// A selector that is compared with many objects.
#[derive(Debug)]
pub struct Matcher(Selector);

impl Matcher {
    /// A matcher of a selector that [`check`] accepts; `None`: it is empty or invalid, and matches nothing.
    pub fn new(selector: &LabelSelector) -> Option<Self> {
        let requirements = (!is_empty(selector)).then(|| selector.clone())?;
        Selector::try_from(requirements).ok().map(Self)
    }

    /// Whether the labels satisfy the selector.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.0.matches(labels.unwrap_or(&NONE))
    }
}

/// Whether the labels satisfy a selector that [`check`] accepts; an empty selector matches nothing.
pub fn matches(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    !is_empty(selector)
        && Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels.unwrap_or(&NONE)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn selector(value: Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    #[rstest]
    #[case::equal(json!({"matchLabels": {"a": "1"}}), true)]
    #[case::another_value(json!({"matchLabels": {"a": "2"}}), false)]
    #[case::one_of_two(json!({"matchLabels": {"a": "1", "b": "1"}}), false)]
    #[case::listed(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true)]
    #[case::not_listed(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false)]
    #[case::does_not_exist(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}), true)]
    #[case::exists(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true)]
    #[case::empty(json!({}), false)]
    #[case::empty_labels(json!({"matchLabels": {}}), false)]
    fn labels_are_matched(#[case] given: Value, #[case] expected: bool) {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(matches(&selector(given), Some(&labels)), expected);
    }

    #[rstest]
    #[case::empty(json!({}), Some("name at least one label"))]
    #[case::empty_labels(json!({"matchLabels": {}}), Some("name at least one label"))]
    #[case::operator(json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}), Some("is unknown"))]
    #[case::values(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), Some("needs values"))]
    #[case::key(json!({"matchLabels": {"a b": "1"}}), Some("\"a b\": the key must be a name"))]
    #[case::value(json!({"matchLabels": {"a": "c d!"}}), Some("the value \"c d!\" must have"))]
    #[case::key_of_an_expression(json!({"matchExpressions": [{"key": "-", "operator": "Exists"}]}), Some("the key must be a name"))]
    #[case::value_of_an_expression(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "b/c"]}]}), Some("the value \"b/c\" must have"))]
    #[case::valid(json!({"matchLabels": {"a": "1", "example.com/b": ""}}), None)]
    fn an_invalid_selector_is_reported(#[case] given: Value, #[case] expected: Option<&str>) {
        match (check(&selector(given)), expected) {
            (Ok(()), None) => {}
            (Err((_, text)), Some(expected)) => assert!(text.contains(expected), "{text}"),
            (result, _) => panic!("{result:?}"),
        }
    }
}
