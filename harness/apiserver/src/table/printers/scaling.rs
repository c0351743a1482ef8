//! Autoscalers, and templates of pods.

use serde_json::Value;

use super::{
    AGE, NAME, NONE, UNKNOWN, UNSET, age, items, name, number, of_containers, printer, selector, text, text_or,
};
use crate::resource::Printer;

/// The number of metrics that are shown.
const MOST_METRICS: usize = 2;

pub(crate) fn horizontal_pod_autoscalers() -> Printer {
    let columns = [
        NAME,
        ("Reference", "string", 0),
        ("Targets", "string", 0),
        ("MinPods", "string", 0),
        ("MaxPods", "string", 0),
        ("Replicas", "string", 0),
        AGE,
    ];
    printer(&columns, |scaler, now| {
        let target = "/spec/scaleTargetRef";
        let least = scaler.pointer("/spec/minReplicas").and_then(Value::as_i64);
        vec![
            name(scaler),
            format!(
                "{}/{}",
                text(scaler, &format!("{target}/kind")),
                text(scaler, &format!("{target}/name"))
            )
            .into(),
            targets(scaler).into(),
            least.map_or(UNSET.to_owned(), |least| least.to_string()).into(),
            number(scaler, "/spec/maxReplicas").into(),
            number(scaler, "/status/currentReplicas").into(),
            age(scaler, now),
        ]
    })
}

fn targets(scaler: &Value) -> String {
    let metrics = items(scaler, "/spec/metrics");
    let current = items(scaler, "/status/currentMetrics");
    let shown: Vec<String> = metrics
        .iter()
        .enumerate()
        .take(MOST_METRICS)
        .map(|(index, metric)| of_metric(metric, current.get(index).unwrap_or(&Value::Null)))
        .collect();
    match (metrics.len(), metrics.len().checked_sub(MOST_METRICS)) {
        (0, _) => NONE.to_owned(),
        (_, Some(more @ 1..)) => format!("{} + {more} more...", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// The current and the wanted amount of a metric.
fn of_metric(metric: &Value, current: &Value) -> String {
    let (source, of_resource) = match text(metric, "/type") {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return UNKNOWN.to_owned(),
    };
    let (wanted, now) = (&metric[source]["target"], &current[source]["current"]);
    let amounts = match wanted["averageUtilization"].as_i64() {
        Some(wanted) => {
            let now = now["averageUtilization"].as_i64();
            format!("{}/{wanted}%", now.map_or(UNKNOWN.to_owned(), |now| format!("{now}%")))
        }
        None => {
            let (field, average) = match wanted.get("averageValue").is_some() {
                true => (
                    "/averageValue",
                    if of_resource || source == "pods" { "" } else { " (avg)" },
                ),
                false => ("/value", ""),
            };
            format!("{}/{}{average}", text_or(now, field, UNKNOWN), text(wanted, field))
        }
    };
    match of_resource {
        true => format!("{}: {amounts}", text(&metric[source], "/name")),
        false => amounts,
    }
}

pub(crate) fn pod_templates() -> Printer {
    let columns = [
        NAME,
        ("Containers", "string", 0),
        ("Images", "string", 0),
        ("Pod Labels", "string", 0),
    ];
    printer(&columns, |template, _now| {
        vec![
            name(template),
            of_containers(template, "/template", "/name"),
            of_containers(template, "/template", "/image"),
            selector(template, "/template/metadata/labels").into(),
        ]
    })
}
