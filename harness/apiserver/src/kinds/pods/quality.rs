//! The quality-of-service class, derived from requests and limits.

use std::collections::BTreeSet;

use quantity::Quantity;
use serde_json::Value;

use crate::kinds::fields::{items, members};

/// `Guaranteed`: every container has CPU and memory limits equal to its requests; `BestEffort`: no container has
/// either; otherwise `Burstable`.
pub(super) fn of(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = items(pod, "/spec/containers")
        .iter()
        .chain(items(pod, "/spec/initContainers"));
    let whole = pod
        .pointer("/spec")
        .filter(|spec| spec.get("resources").is_some_and(Value::is_object));
    // Resources of the pod count instead of those of its containers.
    let parts: Vec<&Value> = whole.map_or_else(|| containers.collect(), |spec| vec![spec]);
    for container in parts {
        let requests = amounts(container, "/resources/requests");
        let limits = amounts(container, "/resources/limits");
        any |= !requests.is_empty() || !limits.is_empty();
        guaranteed &= limits.len() == 2 && requests == limits;
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// CPU and memory amounts above zero, in thousandths.
fn amounts<'a>(container: &'a Value, pointer: &str) -> BTreeSet<(&'a str, i128)> {
    let amount = |(name, value): (&'a str, &'a Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let quantity: Quantity = text.parse().ok()?;
        (matches!(name, "cpu" | "memory") && quantity.milli() > 0).then(|| (name, quantity.milli()))
    };
    members(container, pointer).filter_map(amount).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({}), "BestEffort")]
    #[case(json!({ "requests": { "example.com/gpu": "1" } }), "BestEffort")]
    #[case(json!({ "requests": { "cpu": "1" } }), "Burstable")]
    #[case(
        json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "1000m", "memory": "1024Mi" } }),
        "Guaranteed"
    )]
    #[case(
        json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "2", "memory": "1Gi" } }),
        "Burstable"
    )]
    fn the_class_follows_from_requests_and_limits(#[case] resources: Value, #[case] expected: &str) {
        assert_eq!(
            of(&json!({ "spec": { "containers": [{ "resources": resources }] } })),
            expected
        );
    }
}
