//! Checks the counts in the status of workloads: none is negative, and none is larger than the count that contains it.

use serde_json::Value;

use super::fields::not_negative;
use crate::status::FieldError;

const CONTAINED: &str = "cannot be greater than status.replicas";

/// The counts of a kind.
struct Counts {
    all: &'static [&'static str],
    /// Those of which no more exist than `replicas`.
    contained: &'static [&'static str],
    /// What upstream says if more pods are available than ready.
    available: &'static str,
}

const DEPLOYMENT: Counts = Counts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    contained: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    available: "cannot be greater than readyReplicas",
};

const REPLICA_SET: Counts = Counts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    contained: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    available: "cannot be greater than readyReplicas",
};

const STATEFUL_SET: Counts = Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    contained: &[
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ],
    available: "cannot be greater than status.readyReplicas",
};

const DAEMON_SET: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

pub(super) fn validate_deployment(errors: &mut Vec<FieldError>, new: &Value) {
    validate(errors, new, &DEPLOYMENT);
}

pub(super) fn validate_replica_set(errors: &mut Vec<FieldError>, new: &Value) {
    validate(errors, new, &REPLICA_SET);
}

pub(super) fn validate_stateful_set(errors: &mut Vec<FieldError>, new: &Value) {
    validate(errors, new, &STATEFUL_SET);
}

pub(super) fn validate_daemon_set(errors: &mut Vec<FieldError>, new: &Value) {
    for count in DAEMON_SET {
        not_negative(errors, new, &format!("/status/{count}"));
    }
}

fn validate(errors: &mut Vec<FieldError>, new: &Value, counts: &Counts) {
    for count in counts.all {
        not_negative(errors, new, &format!("/status/{count}"));
    }
    let of = |count: &str| {
        new.pointer(&format!("/status/{count}"))
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    for count in counts.contained {
        if of(count) > of("replicas") {
            errors.push(FieldError::invalid(format!("status.{count}"), of(count), CONTAINED));
        }
    }
    let available = of("availableReplicas");
    if available > of("readyReplicas") {
        errors.push(FieldError::invalid(
            "status.availableReplicas",
            available,
            counts.available,
        ));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 1 }), &[])]
    #[case(json!({ "replicas": 0, "unavailableReplicas": -1 }), &["status.unavailableReplicas"])]
    #[case(json!({ "replicas": 1, "readyReplicas": 2 }), &["status.readyReplicas"])]
    #[case(json!({ "replicas": 2, "readyReplicas": 1, "availableReplicas": 2 }), &["status.availableReplicas"])]
    fn counts_fit_together(#[case] status: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate_deployment(&mut errors, &json!({ "status": status }));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }
}
