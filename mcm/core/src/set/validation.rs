//! Validation of sets, and of the fields that sets and deployments share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use mcm_api::MachineSet;
use mcm_api::machine::MachineTemplateSpec;

use crate::selector;

/// The problems of the set's spec, each with its field and the fix.
pub fn problems(set: &MachineSet) -> Vec<String> {
    let spec = &set.spec;
    let mut problems = Vec::new();
    if spec.replicas < 0 {
        problems.push(format!("spec.replicas: {} is negative: write 0 or more", spec.replicas));
    }
    problems.extend(template_problems(spec.selector.as_ref(), &spec.template));
    if spec.min_ready_seconds < 0 {
        problems.push("spec.minReadySeconds: is negative: write 0 or more".to_owned());
    }
    problems
}

/// The problems of a selector and of the template that it must match.
pub(crate) fn template_problems(selector: Option<&LabelSelector>, template: &MachineTemplateSpec) -> Vec<String> {
    let mut problems = Vec::new();
    match selector.map(|selector| (selector, selector::check(selector))) {
        None => problems.push("spec.selector: Required value: name the labels of spec.template.metadata.labels".to_owned()),
        Some((_, Err((field, text)))) => problems.push(format!("spec.selector{field}: {text}")),
        Some((selector, Ok(()))) if !selector::matches(selector, template.metadata.labels.as_ref()) => problems.push(
            "spec.selector: does not match spec.template.metadata.labels: give the template the labels that are selected"
                .to_owned(),
        ),
        Some(_) => {}
    }
    let class = &template.spec.class;
    for (field, value, name) in [("kind", &class.kind, "Kind"), ("name", &class.name, "Name")] {
        if value.is_empty() {
            problems.push(format!(
                "spec.template.spec.class.{field}: Required value: {name} is required"
            ));
        }
    }
    problems
}
