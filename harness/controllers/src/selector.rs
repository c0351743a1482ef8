//! Label selectors of the API's objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Which labels are selected.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector(Option<Vec<LabelSelectorRequirement>>);

impl Selector {
    /// Selects nothing.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// What an object's selector selects; an empty one selects everything.
    pub fn of(selector: &LabelSelector) -> Self {
        let equal = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| LabelSelectorRequirement {
                key: key.clone(),
                operator: "In".to_owned(),
                values: Some(vec![value.clone()]),
            });
        Self(Some(
            equal
                .chain(selector.match_expressions.iter().flatten().cloned())
                .collect(),
        ))
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let Some(requirements) = &self.0 else {
            return false;
        };
        requirements.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key));
            let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
            match requirement.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
    }
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
    #[case::there(json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }), true)]
    #[case::not_there(json!({ "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] }), false)]
    #[case::both(json!({ "matchLabels": { "a": "1" }, "matchExpressions": [{ "key": "b", "operator": "Exists" }] }), false)]
    fn labels_are_selected(#[case] selector: Value, #[case] expected: bool) {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(Selector::of(&selector).matches(Some(&labels)), expected);
    }

    #[test]
    fn without_a_selector_nothing_is_selected() {
        assert!(!Selector::nothing().matches(Some(&BTreeMap::new())));
    }
}
