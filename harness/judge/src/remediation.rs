//! What health checks request of machines, and the limits of requests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use crate::object::{annotation, is_deleting, name, share, text, time};
use crate::world::WorldState;

/// The status of a Machine's condition; empty: there is none.
pub fn condition_status<'a>(machine: &'a Value, type_: &str) -> &'a str {
    condition(machine, type_).map_or("", |condition| condition["status"].as_str().unwrap_or_default())
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)
}

/// Whether a health check requests that the Machine's owner replaces it.
pub fn is_remediation_requested(machine: &Value) -> bool {
    [keys::HEALTH_CHECK_SUCCEEDED, keys::OWNER_REMEDIATED]
        .iter()
        .all(|type_| condition_status(machine, type_) == "False")
}

/// Since when a health check requests that the Machine's owner replaces it.
pub fn remediation_requested_at(machine: &Value) -> Option<Timestamp> {
    let requested = condition(machine, keys::OWNER_REMEDIATED).filter(|_| is_remediation_requested(machine))?;
    time(requested, "/lastTransitionTime")
}

/// The reasons of failed checks. Others are those of other controllers.
const REASONS: [&str; 5] = [
    "NodeDeleted",
    "NodeStartupTimeout",
    "UnhealthyNode",
    "UnhealthyMachine",
    "HasRemediateAnnotation",
];

/// Whether the Machine failed a health check, not one of another controller.
pub fn has_failed_check(machine: &Value) -> bool {
    condition(machine, keys::HEALTH_CHECK_SUCCEEDED)
        .is_some_and(|condition| condition["status"] == "False" && REASONS.contains(&text(condition, "/reason")))
}

/// The annotations that pause a check, or exclude a Machine from checks.
const PAUSED: [&str; 2] = [keys::PAUSED_ANNOTATION, keys::CAPI_PAUSED_ANNOTATION];

/// Whether annotations exclude the Machine from health checks.
pub fn is_excluded(machine: &Value) -> bool {
    let skipped = [
        keys::SKIP_REMEDIATION_ANNOTATION,
        keys::CAPI_SKIP_REMEDIATION_ANNOTATION,
    ];
    has_one_of(machine, skipped) || has_one_of(machine, PAUSED)
}

/// Whether a user requests the remediation of the Machine by an annotation.
pub fn is_requested_by_user(machine: &Value) -> bool {
    let requested = [
        keys::REMEDIATE_MACHINE_ANNOTATION,
        keys::CAPI_REMEDIATE_MACHINE_ANNOTATION,
    ];
    has_one_of(machine, requested)
}

/// Whether the check is paused or being deleted.
pub fn is_inactive(check: &Value) -> bool {
    has_one_of(check, PAUSED) || is_deleting(check)
}

/// Whether one of the annotations has another value than `false`.
fn has_one_of(object: &Value, keys: [&str; 2]) -> bool {
    let mut values = keys.iter().filter_map(|key| annotation(object, key));
    values.any(|value| value != "false")
}

/// Whether the check selects the Machine. A check without labels and expressions selects nothing.
pub fn selects(check: &Value, machine: &Value) -> bool {
    let selector = &check["spec"]["selector"];
    let labels = &machine["metadata"]["labels"];
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let mut matches = equal
        .map(|(key, value)| labels[key] == *value)
        .chain(expressions.map(|expression| matches_expression(labels, expression)))
        .peekable();
    matches.peek().is_some() && matches.all(|matches| matches)
}

/// Whether labels match an expression of a selector. The admission of a check refuses other operators.
fn matches_expression(labels: &Value, expression: &Value) -> bool {
    let value = expression["key"].as_str().and_then(|key| labels.get(key));
    let is_listed = || {
        let values = expression["values"].as_array();
        value.is_some_and(|value| values.is_some_and(|values| values.contains(value)))
    };
    match expression["operator"].as_str() {
        Some("In") => is_listed(),
        Some("NotIn") => !is_listed(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => false,
    }
}

/// The requests to other controllers, by the name of their Machine.
pub fn requests(world: &WorldState) -> BTreeMap<&str, &Value> {
    let requests = world.objects.values();
    requests
        .filter(|object| annotation(object, keys::HEALTH_CHECK_ANNOTATION).is_some())
        .map(|object| (name(object), object))
        .collect()
}

/// The Machine that another controller deletes, if the object is its request.
pub fn deleted_machine(request: &Value) -> Option<&str> {
    let deletes = text(request, "/status/phase") == "Deleting";
    annotation(request, keys::HEALTH_CHECK_ANNOTATION).filter(|_| deletes)?;
    Some(name(request))
}

/// Whether another controller may delete the Machine, because a health check requests its remediation. Of the strategies of
/// the example controller, two delete; those of others are not known.
pub fn may_be_deleted_by_another(world: &WorldState, machine: &Value) -> bool {
    match requests(world).get(name(machine)) {
        Some(request) if request["kind"] == "FakeCloudRemediation" => {
            ["Delete", "Escalate"].contains(&text(request, "/spec/strategy"))
        }
        Some(_) => true,
        // The request ended with the Machine.
        None => condition_status(machine, keys::EXTERNALLY_REMEDIATED) == "False",
    }
}

/// The active checks that select the Machine.
pub fn checks_of<'a>(world: &'a WorldState, machine: &'a Value) -> impl Iterator<Item = &'a Value> {
    world
        .of_kind("MachineHealthCheck")
        .filter(move |check| !is_inactive(check) && selects(check, machine))
}

/// Whether no check evaluates the Machine: none selects it, or several active ones do.
pub fn is_unchecked(world: &WorldState, machine: &Value) -> bool {
    let mut selecting = world
        .of_kind("MachineHealthCheck")
        .filter(|check| !is_deleting(check) && selects(check, machine));
    selecting.next().is_none() || checks_of(world, machine).nth(1).is_some()
}

/// A setting of a check in either spelling.
pub fn setting<'a>(check: &'a Value, flat: &str, nested: &str) -> Option<&'a Value> {
    check["spec"].get(flat).or_else(|| check["spec"].pointer(nested))
}

/// How many Machines of the deployment are replaced at the same time because a health check requests it: the number in its
/// spec or annotation, rounded up; one without it.
pub fn max_in_flight(world: &WorldState, deployment: &str) -> usize {
    world
        .object("MachineDeployment", deployment)
        .map_or(1, max_in_flight_of)
}

/// The same for a version of the deployment.
pub fn max_in_flight_of(object: &Value) -> usize {
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or_default();
    let annotated = || {
        let text = annotation(object, keys::REMEDIATION_MAX_IN_FLIGHT_ANNOTATION)?;
        Some(text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from))
    };
    let specified = object
        .pointer("/spec/remediation/maxInFlight")
        .cloned()
        .or_else(annotated);
    let number = specified.map_or(1, |value| share(&value, replicas, true).max(1));
    usize::try_from(number).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::of_no_label(json!({}), false)]
    #[case::of_a_label(json!({ "matchLabels": { "name": "md" } }), true)]
    #[case::of_another_value(json!({ "matchLabels": { "name": "other" } }), false)]
    #[case::of_two_labels(json!({ "matchLabels": { "name": "md", "zone": "z1" } }), false)]
    #[case::listed(json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": ["other", "md"] }] }), true)]
    #[case::not_listed(json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": ["other"] }] }), false)]
    #[case::listed_without_the_label(json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["z1"] }] }), false)]
    #[case::excluded(json!({ "matchExpressions": [{ "key": "name", "operator": "NotIn", "values": ["md"] }] }), false)]
    #[case::excluded_without_the_label(json!({ "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["z1"] }] }), true)]
    #[case::exists(json!({ "matchExpressions": [{ "key": "name", "operator": "Exists" }] }), true)]
    #[case::does_not_exist(json!({ "matchExpressions": [{ "key": "name", "operator": "DoesNotExist" }] }), false)]
    #[case::a_label_and_an_expression(
        json!({ "matchLabels": { "name": "md" }, "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }),
        false
    )]
    fn a_check_selects_by_labels_and_expressions(#[case] selector: Value, #[case] selected: bool) {
        let machine = json!({ "metadata": { "labels": { "name": "md" } } });
        assert_eq!(
            selects(&json!({ "spec": { "selector": selector } }), &machine),
            selected
        );
    }
}
