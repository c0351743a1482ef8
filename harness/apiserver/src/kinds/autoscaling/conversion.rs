//! Converts HorizontalPodAutoscalers between autoscaling/v1 and v2. The first version has one target, the CPU; it keeps
//! everything else in annotations.

use serde_json::{Map, Value, json};

use super::metrics;
use crate::kinds::fields::{items, object, text};
use crate::resource::Conversion;

pub(super) const CONVERSION: Conversion = Conversion {
    group: "autoscaling",
    version: "v2",
    to_stored,
    from_stored,
};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The target utilization of the CPU, if the metric is one.
fn utilization<'a>(metric: &'a Value, place: &str) -> Option<&'a Value> {
    let is_cpu = text(metric, "/type") == "Resource" && text(metric, "/resource/name") == "cpu";
    metric
        .pointer(&format!("/resource/{place}/averageUtilization"))
        .filter(|value| is_cpu && !value.is_null())
}

fn from_stored(scaler: &mut Value) {
    let mut annotations = Map::new();
    let all = items(scaler, "/spec/metrics").to_vec();
    let target = all.iter().find_map(|metric| utilization(metric, "target")).cloned();
    let others: Vec<Value> = all
        .iter()
        .filter(|metric| utilization(metric, "target").is_none())
        .map(metrics::spec_to_v1)
        .collect();
    let mut keep = |name: &str, value: Value| annotations.insert(name.to_owned(), value.to_string().into());
    if !others.is_empty() {
        keep(METRICS, others.into());
    }
    let current = items(scaler, "/status/currentMetrics").to_vec();
    let used = current
        .iter()
        .filter_map(|metric| utilization(metric, "current"))
        .next_back()
        .cloned();
    if !current.is_empty() {
        keep(CURRENT, current.iter().map(metrics::status_to_v1).collect());
    }
    if let Some(behavior) = scaler.pointer("/spec/behavior").filter(|behavior| behavior.is_object()) {
        keep(BEHAVIOR, with_capitals(behavior));
    }
    let conditions = items(scaler, "/status/conditions");
    if !conditions.is_empty() {
        keep(CONDITIONS, conditions.to_vec().into());
    }
    if let Some(spec) = object(scaler, "/spec") {
        spec.remove("metrics");
        spec.remove("behavior");
        if let Some(target) = target {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), target);
        }
    }
    if let Some(status) = scaler.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentMetrics");
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(json!(0));
        status.entry("desiredReplicas").or_insert(json!(0));
        if let Some(used) = used {
            status.insert("currentCPUUtilizationPercentage".to_owned(), used);
        }
    }
    if !annotations.is_empty()
        && let Some(existing) = object(scaler, "/metadata/annotations")
    {
        existing.extend(annotations);
    }
}

fn to_stored(scaler: &mut Value) {
    let kept = |scaler: &Value, name: &str| -> Option<Value> {
        let text = scaler.pointer("/metadata/annotations")?.get(name)?.as_str()?;
        serde_json::from_str(text).ok()
    };
    let list = |name: &str| match kept(scaler, name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let mut metrics: Vec<Value> = list(METRICS).iter().map(metrics::spec_from_v1).collect();
    if let Some(target) = scaler
        .pointer("/spec/targetCPUUtilizationPercentage")
        .filter(|target| !target.is_null())
    {
        let target = json!({ "type": "Utilization", "averageUtilization": target });
        metrics.push(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
    }
    let current: Vec<Value> = list(CURRENT).iter().map(metrics::status_from_v1).collect();
    let (behavior, conditions) = (kept(scaler, BEHAVIOR), list(CONDITIONS));
    if let Some(spec) = object(scaler, "/spec") {
        spec.remove("targetCPUUtilizationPercentage");
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), metrics.into());
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".to_owned(), without_capitals(&behavior));
        }
    }
    if let Some(status) = scaler.get_mut("status").and_then(Value::as_object_mut) {
        let used = status.remove("currentCPUUtilizationPercentage");
        let current = match used {
            Some(used) if current.is_empty() => {
                let current = json!({ "averageUtilization": used });
                vec![json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } })]
            }
            _ => current,
        };
        if !current.is_empty() {
            status.insert("currentMetrics".to_owned(), current.into());
        }
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), conditions.into());
        }
    }
    if let Some(metadata) = scaler.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.retain(|name, _| ![METRICS, CURRENT, CONDITIONS, BEHAVIOR].contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// The fields of a behavior as upstream writes them into the annotation: the names of the Go struct.
fn with_capitals(behavior: &Value) -> Value {
    fn first(name: &str, change: fn(&char) -> char) -> String {
        let mut letters = name.chars();
        letters
            .next()
            .map_or(String::new(), |letter| change(&letter).to_string() + letters.as_str())
    }
    rename(behavior, &|name| first(name, char::to_ascii_uppercase))
}

fn without_capitals(behavior: &Value) -> Value {
    rename(behavior, &|name| {
        let mut letters = name.chars();
        letters.next().map_or(String::new(), |letter| {
            letter.to_ascii_lowercase().to_string() + letters.as_str()
        })
    })
}

fn rename(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (change(name), rename(value, change)))
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| rename(item, change)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_keeps_what_it_cannot_express_in_annotations() {
        let cpu = json!({
            "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } },
        });
        let memory = json!({
            "type": "Resource", "resource": { "name": "memory", "target": { "type": "AverageValue", "averageValue": "1Gi" } },
        });
        let stored = json!({
            "metadata": { "name": "a" },
            "spec": {
                "maxReplicas": 3, "metrics": [memory, cpu],
                "behavior": { "scaleDown": { "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 5 }] } },
            },
        });
        let mut first = stored.clone();
        from_stored(&mut first);
        assert_eq!(
            first["spec"],
            json!({ "maxReplicas": 3, "targetCPUUtilizationPercentage": 50 })
        );
        assert_eq!(first["metadata"]["annotations"].as_object().unwrap().len(), 2);
        to_stored(&mut first);
        assert_eq!(first, stored);
    }
}
