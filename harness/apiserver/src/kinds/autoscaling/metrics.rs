//! The metrics of autoscaling/v1, which it keeps in annotations, and those of v2.

use serde_json::{Map, Value, json};

use crate::kinds::fields::{is_set, text};

/// The field of a metric by its type.
fn source(metric: &Value) -> &'static str {
    match text(metric, "/type") {
        "Object" => "object",
        "Pods" => "pods",
        "ContainerResource" => "containerResource",
        "External" => "external",
        _ => "resource",
    }
}

fn insert(map: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| is_set(Some(value))) {
        map.insert(name.to_owned(), value.clone());
    }
}

/// The metric with the changed member of its type.
fn converted(metric: &Value, member: Map<String, Value>) -> Value {
    json!({ "type": metric["type"], source(metric): member })
}

pub(super) fn spec_to_v1(metric: &Value) -> Value {
    to_v1(metric, "target", "target")
}

pub(super) fn status_to_v1(metric: &Value) -> Value {
    to_v1(metric, "current", "current")
}

/// `place` is the member of v2 with the amounts, `prefix` that of the names in v1.
fn to_v1(metric: &Value, place: &str, prefix: &str) -> Value {
    let kind = source(metric);
    let from = &metric[kind];
    let amounts = &from[place];
    let mut to = Map::new();
    let name = |suffix: &str| format!("{prefix}{suffix}");
    match kind {
        "resource" | "containerResource" => {
            insert(&mut to, "name", from.get("name"));
            insert(&mut to, "container", from.get("container"));
            insert(&mut to, &name("AverageUtilization"), amounts.get("averageUtilization"));
            // The first version cannot omit a current value.
            let zero = json!("0");
            let amount = amounts.get("averageValue").or((prefix == "current").then_some(&zero));
            insert(&mut to, &name("AverageValue"), amount);
        }
        _ => {
            insert(&mut to, "metricName", from.pointer("/metric/name"));
            let selector = if kind == "external" {
                "metricSelector"
            } else {
                "selector"
            };
            insert(&mut to, selector, from.pointer("/metric/selector"));
            if kind == "object" {
                insert(&mut to, "target", from.get("describedObject"));
                let zero = json!("0");
                insert(&mut to, &name("Value"), amounts.get("value").or(Some(&zero)));
                insert(&mut to, "averageValue", amounts.get("averageValue"));
            } else {
                insert(&mut to, &name("Value"), amounts.get("value"));
                insert(&mut to, &name("AverageValue"), amounts.get("averageValue"));
            }
        }
    }
    converted(metric, to)
}

pub(super) fn spec_from_v1(metric: &Value) -> Value {
    from_v1(metric, "target", true)
}

pub(super) fn status_from_v1(metric: &Value) -> Value {
    from_v1(metric, "current", false)
}

fn from_v1(metric: &Value, place: &str, has_type: bool) -> Value {
    let kind = source(metric);
    let from = &metric[kind];
    let of = |suffix: &str| from.get(format!("{place}{suffix}"));
    let mut amounts = Map::new();
    let average = if kind == "object" {
        from.get("averageValue")
    } else {
        of("AverageValue")
    };
    insert(&mut amounts, "averageUtilization", of("AverageUtilization"));
    insert(&mut amounts, "averageValue", average);
    let value = of("Value").filter(|value| average.is_none() || *value != "0");
    insert(&mut amounts, "value", value);
    if has_type {
        let type_ = if amounts.contains_key("averageUtilization") {
            "Utilization"
        } else if amounts.contains_key("averageValue") {
            "AverageValue"
        } else {
            "Value"
        };
        amounts.insert("type".to_owned(), type_.into());
    }
    let mut to = Map::new();
    match kind {
        "resource" | "containerResource" => {
            insert(&mut to, "name", from.get("name"));
            insert(&mut to, "container", from.get("container"));
        }
        _ => {
            let mut identifier = Map::new();
            insert(&mut identifier, "name", from.get("metricName"));
            insert(
                &mut identifier,
                "selector",
                from.get("selector").or_else(|| from.get("metricSelector")),
            );
            to.insert("metric".to_owned(), identifier.into());
            if kind == "object" {
                insert(&mut to, "describedObject", from.get("target"));
            }
        }
    }
    to.insert(place.to_owned(), amounts.into());
    converted(metric, to)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({ "type": "Pods", "pods": { "metric": { "name": "m" }, "target": { "type": "AverageValue", "averageValue": "1" } } }))]
    #[case(json!({ "type": "External", "external": {
        "metric": { "name": "m", "selector": { "matchLabels": { "a": "b" } } }, "target": { "type": "Value", "value": "2" },
    } }))]
    #[case(json!({ "type": "Object", "object": {
        "metric": { "name": "m" }, "describedObject": { "kind": "Service", "name": "s" },
        "target": { "type": "Value", "value": "2" },
    } }))]
    #[case(json!({ "type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "c", "target": { "type": "Utilization", "averageUtilization": 50 },
    } }))]
    fn metrics_survive_the_first_version(#[case] metric: Value) {
        assert_eq!(spec_from_v1(&spec_to_v1(&metric)), metric);
    }
}
