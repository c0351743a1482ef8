//! Workloads of the core group: ReplicationControllers and PodTemplates.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, members, not_negative, text};
use super::pods::{defaults, spec};
use crate::resource::{Generation, Resource, Subresource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "PodTemplate", "podtemplates", "io.k8s.api.core.v1.PodTemplate")
            .generation(Generation::Content)
            .printer(printers::pod_templates())
            .prepare(|new, _| defaults::pod_spec(new, "/template/spec"))
            .validate(|new, _| {
                let mut errors = Vec::new();
                let pod = new.pointer("/template/spec").unwrap_or(&Value::Null);
                spec::validate(&mut errors, pod, "template.spec");
                errors
            })
            .build(),
        ResourceBuilder::new(
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            "io.k8s.api.core.v1.ReplicationController",
        )
        .short(&["rc"])
        .categories(&["all"])
        .status()
        .subresource(Subresource::Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            selector: None,
        })
        .generation(Generation::Spec)
        .selectable("status.replicas", "/status/replicas", "0")
        .printer(printers::replica_sets())
        .prepare(prepare)
        .validate(validate)
        .build(),
    ]
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "replicas", 1);
    if let Some(labels) = new.pointer("/spec/template/metadata/labels").cloned() {
        default(new, "/spec", "selector", labels.clone());
        default(new, "/metadata", "labels", labels);
    }
    defaults::pod_spec(new, "/spec/template/spec");
    if old.is_none() {
        default(new, "/status", "replicas", 0);
    }
}

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    not_negative(&mut errors, new, "/spec/replicas");
    let selector: Vec<(&str, &Value)> = members(new, "/spec/selector").collect();
    if selector.is_empty() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let Some(template) = new.pointer("/spec/template").filter(|template| template.is_object()) else {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    };
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or(json!({}));
    if selector.iter().any(|(key, value)| labels.get(key) != Some(value)) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
    spec::validate(
        &mut errors,
        template.get("spec").unwrap_or(&Value::Null),
        "spec.template.spec",
    );
    if !matches!(text(template, "/spec/restartPolicy"), "" | "Always") {
        let policy = text(template, "/spec/restartPolicy");
        errors.push(FieldError::not_supported(
            "spec.template.spec.restartPolicy",
            policy,
            &["Always"],
        ));
    }
    errors
}
