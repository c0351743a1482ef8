//! Label selectors of the API's objects, as kube-core evaluates them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// A selector that is evaluated many times.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection(Option<Selector>);

impl Selection {
    /// Selects nothing.
    pub const NOTHING: Self = Self(None);

    /// Parses a selector. It selects everything if it is empty, and nothing if an operator is unknown or has no values.
    pub fn of(selector: &LabelSelector) -> Self {
        Self(Selector::try_from(selector.clone()).ok())
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Selector::selects_all)
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let selector = self.0.as_ref();
        selector.is_some_and(|selector| selector.matches(labels.unwrap_or(&NONE)))
    }
}

/// Whether `selector` selects an object with these labels.
pub fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    Selection::of(selector).matches(labels)
}

/// Whether the selector has no requirement, and so selects everything.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::empty(json!({}), true)]
    #[case::equal(json!({ "matchLabels": { "a": "1" } }), true)]
    #[case::unequal(json!({ "matchLabels": { "a": "2" } }), false)]
    #[case::one_of(json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": ["0", "1"] }] }), true)]
    #[case::none_of(json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": ["1"] }] }), false)]
    #[case::none_of_what_is_missing(json!({ "matchExpressions": [{ "key": "b", "operator": "NotIn", "values": ["1"] }] }), true)]
    #[case::exists(json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }), true)]
    #[case::does_not_exist(json!({ "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] }), false)]
    #[case::unknown_operator(json!({ "matchExpressions": [{ "key": "a", "operator": "Resembles", "values": ["1"] }] }), false)]
    #[case::both(json!({ "matchLabels": { "a": "1" }, "matchExpressions": [{ "key": "b", "operator": "Exists" }] }), false)]
    fn labels_are_selected(#[case] selector: Value, #[case] expected: bool) {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(selects(&selector, Some(&labels)), expected);
        assert_eq!(Selection::of(&selector).is_everything(), is_empty(&selector));
    }

    #[test]
    fn without_a_selector_nothing_is_selected() {
        assert!(!Selection::NOTHING.matches(Some(&BTreeMap::new())));
    }
}
