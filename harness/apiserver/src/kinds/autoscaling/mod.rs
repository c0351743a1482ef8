//! HorizontalPodAutoscalers. The server stores them in the form of autoscaling/v2; a controller scales.

mod behavior;
mod conversion;
mod metrics;

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, is_set, items, object, text};
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        )
        .short(&["hpa"])
        .categories(&["all"])
        .status()
        .printer(printers::horizontal_pod_autoscalers())
        .prepare(prepare)
        .validate(validate)
        .build(),
        ResourceBuilder::new(
            "autoscaling/v1",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
        )
        .short(&["hpa"])
        .categories(&["all"])
        .status()
        .printer(printers::horizontal_pod_autoscalers())
        .stored_as(conversion::CONVERSION)
        .build(),
    ]
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "minReplicas", 1);
    if items(new, "/spec/metrics").is_empty()
        && let Some(spec) = object(new, "/spec")
    {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        spec.insert("metrics".to_owned(), json!([cpu]));
    }
    if is_set(new.pointer("/spec/behavior")) {
        let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
        let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
        let up = json!({
            "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent],
        });
        let down = json!({ "selectPolicy": "Max", "policies": [percent] });
        for (direction, defaults) in [("scaleUp", up), ("scaleDown", down)] {
            default(new, "/spec/behavior", direction, json!({}));
            for (field, value) in defaults.as_object().into_iter().flatten() {
                default(new, &format!("/spec/behavior/{direction}"), field, value.clone());
            }
        }
    }
    if old.is_none() {
        default(new, "/status", "currentMetrics", Value::Null);
        default(new, "/status", "desiredReplicas", 0);
    }
}

/// The types of metrics.
const METRICS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let version = text(new, "/spec/scaleTargetRef/apiVersion");
    if version.is_empty() {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", version, detail));
    }
    for field in ["kind", "name"] {
        if text(new, &format!("/spec/scaleTargetRef/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.scaleTargetRef.{field}"), ""));
        }
    }
    for (index, metric) in items(new, "/spec/metrics").iter().enumerate() {
        let path = format!("spec.metrics[{index}].type");
        let kind = text(metric, "/type");
        if kind.is_empty() {
            errors.push(FieldError::required(path.as_str(), "must specify a metric source type"));
        }
        if !METRICS.contains(&kind) {
            errors.push(FieldError::not_supported(path, kind, &METRICS));
        }
    }
    behavior::validate(&mut errors, new);
    let of = |field: &str| {
        new.pointer(&format!("/spec/{field}"))
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    let (least, most) = (of("minReplicas"), of("maxReplicas"));
    let from_outside = |metric: &Value| matches!(text(metric, "/type"), "Object" | "External");
    if least == 0 && !items(new, "/spec/metrics").iter().any(from_outside) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", why));
    }
    if least < 1 {
        errors.push(FieldError::invalid(
            "spec.minReplicas",
            least,
            "must be greater than or equal to 1",
        ));
    }
    if most < 1 {
        errors.push(FieldError::required(
            "spec.maxReplicas",
            "must be set and greater than 0",
        ));
    }
    if most < least {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", most, detail));
    }
    errors
}
