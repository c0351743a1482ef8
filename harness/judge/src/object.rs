//! Reads fields of API objects in JSON.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mcm_api::preservation::read_expiry;
use mcm_api::{GoDuration, keys};
use scenario::Timeouts;
use serde_json::Value;

/// The string at a JSON pointer; empty if it is missing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `time + by`, saturating.
pub fn after(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// An object's resourceVersion: a later write has a higher one.
pub fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// An object's uid.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether an object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// A Machine's phase; empty: not set yet.
pub fn phase(machine: &Value) -> &str {
    text(machine, "/status/currentStatus/phase")
}

/// The time at a JSON pointer, parsed like a preservation expiry.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    read_expiry(text(object, pointer)).ok()
}

/// A label's value; empty: not set.
pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Whether a Node is Ready.
pub fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether the deletion of a Machine is forced: the label `force-deletion` has a Go boolean.
pub fn is_forced(machine: &Value) -> bool {
    ["1", "t", "T", "TRUE", "true", "True"].contains(&label(machine, keys::FORCE_DELETION_LABEL))
}

/// An annotation's value.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// The name of the owner of that kind with `controller: true`.
pub fn owner<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner["kind"] == kind && owner["controller"] == true)?;
    owner["name"].as_str()
}

/// The Machine's own timeout, or `default`.
pub fn timeout_of(machine: &Value, field: &str, default: Duration) -> Duration {
    let own = machine["spec"][field].as_str();
    own.and_then(|own| own.parse::<GoDuration>().ok())
        .map_or(default, |own| own.0)
}

/// How long a Machine may take to join the cluster.
pub fn creation_timeout(machine: &Value, timeouts: &Timeouts) -> Duration {
    annotation(machine, keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION)
        .and_then(|text| text.parse::<GoDuration>().ok())
        .map_or_else(
            || timeout_of(machine, "creationTimeout", timeouts.creation),
            |own| own.0,
        )
}

/// The strategy's `maxSurge` and `maxUnavailable`: of an in-place update, or of a rolling update.
pub fn bounds(deployment: &Value) -> &Value {
    let strategy = &deployment["spec"]["strategy"];
    match strategy["type"].as_str() {
        Some("InPlaceUpdate") => &strategy["inPlaceUpdate"],
        _ => &strategy["rollingUpdate"],
    }
}

/// Resolves an absolute or percentage value (an `IntOrString`) against `whole`; `up`: rounds up.
pub fn share(value: &Value, whole: i64, up: bool) -> i64 {
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match (value.as_i64(), percent) {
        (Some(count), _) => count,
        (None, Some(percent)) if up => (whole * percent + 99) / 100,
        (None, Some(percent)) => whole * percent / 100,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_count(json!(3), 10, true, 3)]
    #[case::percent_up(json!("25%"), 10, true, 3)]
    #[case::percent_down(json!("25%"), 10, false, 2)]
    #[case::nothing(json!(null), 10, true, 0)]
    fn a_share_is_an_absolute_number_or_a_percentage_of_the_whole(
        #[case] value: Value,
        #[case] whole: i64,
        #[case] up: bool,
        #[case] expected: i64,
    ) {
        assert_eq!(share(&value, whole, up), expected);
    }

    #[test]
    fn a_machines_own_timeout_overrides_the_default() {
        let timeouts = Timeouts::production();
        assert_eq!(creation_timeout(&json!({}), &timeouts), timeouts.creation);
        let own = json!({ "spec": { "creationTimeout": "50m0s" } });
        assert_eq!(creation_timeout(&own, &timeouts), Duration::from_mins(50));
    }
}
