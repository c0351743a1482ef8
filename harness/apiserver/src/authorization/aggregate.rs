//! Computes the rules of aggregated ClusterRoles, as pure functions.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::selector::{LabelSelector, text_of};
use crate::status::ApiError;

/// The fields of a ClusterRole that aggregation needs.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) rules: &'a [Value],
}

/// The selectors of a ClusterRole's `aggregationRule`, if it has one.
///
/// # Errors
/// 400 for an invalid selector.
pub(crate) fn selectors(role: &Value) -> Result<Option<Vec<LabelSelector>>, ApiError> {
    let Some(rule) = role.get("aggregationRule").filter(|rule| !rule.is_null()) else {
        return Ok(None);
    };
    let selectors = rule.get("clusterRoleSelectors").and_then(Value::as_array);
    let parsed = selectors
        .into_iter()
        .flatten()
        .map(|selector| LabelSelector::parse(&text_of(selector)));
    parsed.collect::<Result<_, _>>().map(Some)
}

/// The aggregated rules of the role with that name: for each selector the rules of every other role that it selects,
/// by name, without duplicates.
pub(crate) fn aggregate(name: &str, selectors: &[LabelSelector], sources: &[Source<'_>]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        for source in sources.iter().filter(|source| source.name != name) {
            if !selector.matches(source.labels) {
                continue;
            }
            for rule in source.rules {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}
