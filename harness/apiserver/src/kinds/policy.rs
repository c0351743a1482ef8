//! PodDisruptionBudgets.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, one_of};
use super::syntax;
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "policy/v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            "io.k8s.api.policy.v1.PodDisruptionBudget",
        )
        .short(&["pdb"])
        .status()
        .generation(Generation::Spec)
        .requires_version()
        .printer(printers::disruption_budgets())
        .prepare(prepare)
        .validate(validate)
        .build(),
    ]
}

/// The counts are always present, even before a controller computes them.
fn prepare(new: &mut Value, _old: Option<&Value>) {
    for count in ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"] {
        default(new, "/status", count, 0);
    }
}

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = |name: &str| new.pointer(&format!("/spec/{name}")).filter(|value| !value.is_null());
    if field("minAvailable").is_some() && field("maxUnavailable").is_some() {
        let spec = new.get("spec").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            "spec",
            spec,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = field(name) {
            syntax::amount_or_percent(&mut errors, &format!("spec.{name}"), value);
        }
    }
    if let Some(selector) = field("selector") {
        syntax::label_selector(&mut errors, selector, "spec.selector");
    }
    let policy = "/spec/unhealthyPodEvictionPolicy";
    one_of(
        &mut errors,
        new,
        policy,
        "spec.unhealthyPodEvictionPolicy",
        &["AlwaysAllow", "IfHealthyBudget"],
    );
    for count in ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"] {
        super::fields::not_negative(&mut errors, new, &format!("/status/{count}"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "minAvailable": 1 }), &[])]
    #[case(json!({ "minAvailable": 1, "maxUnavailable": "50%" }), &["spec"])]
    #[case(json!({ "maxUnavailable": "150%" }), &["spec.maxUnavailable"])]
    #[case(json!({ "unhealthyPodEvictionPolicy": "Never" }), &["spec.unhealthyPodEvictionPolicy"])]
    fn budgets_are_checked(#[case] spec: Value, #[case] expected: &[&str]) {
        let errors = validate(&json!({ "spec": spec }), None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
