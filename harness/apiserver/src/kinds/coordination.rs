//! Leases.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::not_negative;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "coordination.k8s.io/v1",
            "Lease",
            "leases",
            "io.k8s.api.coordination.v1.Lease",
        )
        .requires_version()
        .printer(printers::leases())
        .validate(validate)
        .build(),
    ]
}

fn validate(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let duration = new.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
    if let Some(seconds) = duration.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        ));
    }
    not_negative(&mut errors, new, "/spec/leaseTransitions");
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_positive_and_transitions_not_negative() {
        let lease = json!({ "spec": { "leaseDurationSeconds": 0, "leaseTransitions": -1 } });
        let errors: Vec<String> = validate(&lease, None).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }
}
