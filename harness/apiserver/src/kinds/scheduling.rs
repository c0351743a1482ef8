//! PriorityClasses.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, one_of, text};
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

/// The maximum value of user-defined classes.
const HIGHEST_OF_USERS: i64 = 1_000_000_000;
/// The system's classes: name, value and description.
pub(crate) const SYSTEM_PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            "io.k8s.api.scheduling.v1.PriorityClass",
        )
        .cluster()
        .short(&["pc"])
        .generation(Generation::Content)
        .printer(printers::priority_classes())
        .prepare(prepare)
        .validate(validate)
        .build(),
    ]
}

fn prepare(new: &mut Value, _old: Option<&Value>) {
    default(new, "", "preemptionPolicy", "PreemptLowerPriority");
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(new, "/metadata/name");
    let value = new.get("value").and_then(Value::as_i64).unwrap_or_default();
    if name.starts_with("system-") {
        let known = SYSTEM_PRIORITIES
            .iter()
            .any(|(known, known_value, _)| (*known, *known_value) == (name, value));
        if !known {
            let why = "priority class names with 'system-' prefix are reserved for system use only";
            errors.push(FieldError::forbidden("metadata.name", why));
        }
    } else if value > HIGHEST_OF_USERS {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        errors.push(FieldError::forbidden("value", why));
    }
    one_of(
        &mut errors,
        new,
        "/preemptionPolicy",
        "preemptionPolicy",
        &["PreemptLowerPriority", "Never"],
    );
    if let Some(old) = old {
        if old.get("value").and_then(Value::as_i64).unwrap_or_default() != value {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        immutable(&mut errors, new, old, "/preemptionPolicy");
    }
    errors
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("high", 1_000_000_000, 0)]
    #[case("high", 1_000_000_001, 1)]
    #[case("system-node-critical", 2_000_001_000, 0)]
    #[case("system-mine", 1, 1)]
    fn user_defined_classes_have_a_limited_range(#[case] name: &str, #[case] value: i64, #[case] expected: usize) {
        let class = json!({ "metadata": { "name": name }, "value": value });
        assert_eq!(validate(&class, None).len(), expected);
    }
}
