//! Counts events of health checks by kind, for campaigns that declare which events must occur.

use mcm_api::keys;
use scenario::observation::{Observation, Seen};
use serde_json::Value;

use crate::object::{annotation, is_deleting, text};
use crate::remediation::condition;

/// The events that an observation shows; `before` is the object's previous version.
pub fn events(observation: &Observation, before: Option<&Value>) -> Vec<String> {
    match &observation.what {
        Seen::Applied(kind, machine) if kind.key == "Machine" => {
            before.map(|before| of_machine(before, machine)).unwrap_or_default()
        }
        Seen::Applied(kind, check) if kind.key == "MachineHealthCheck" => of_check(before, check),
        Seen::Applied(_, object) if before.is_none() && is_request(object) => vec!["request created".to_owned()],
        Seen::Deleted(_, object) if is_request(object) => vec!["request gone".to_owned()],
        _ => Vec::new(),
    }
}

/// Whether the object is a request to another controller.
fn is_request(object: &Value) -> bool {
    annotation(object, keys::HEALTH_CHECK_ANNOTATION).is_some()
}

fn of_machine(before: &Value, after: &Value) -> Vec<String> {
    let mut events = Vec::new();
    let (was, is) = (
        state(before, keys::HEALTH_CHECK_SUCCEEDED),
        state(after, keys::HEALTH_CHECK_SUCCEEDED),
    );
    if was != is {
        match (was, is) {
            (_, Some(("False", reason))) => events.push(format!("failed: {reason}")),
            (Some(("False", _)), Some(("True", _))) => events.push("passes again".to_owned()),
            _ => {}
        }
    }
    for (type_, who) in [
        (keys::OWNER_REMEDIATED, "owner"),
        (keys::EXTERNALLY_REMEDIATED, "external"),
    ] {
        let (was, is) = (state(before, type_), state(after, type_));
        match (was, is) {
            _ if was == is => {}
            (_, Some((_, reason))) => events.push(format!("{who}: {reason}")),
            (Some(_), None) if !is_deleting(after) => events.push(format!("{who}: withdrawn")),
            _ => {}
        }
    }
    events
}

fn of_check(before: Option<&Value>, after: &Value) -> Vec<String> {
    let changes = |type_: &str, status: &str| {
        let was = before.and_then(|before| state(before, type_));
        let is = state(after, type_);
        is.filter(|(is_status, _)| *is_status == status && was != is)
            .map(|(_, reason)| reason)
    };
    let allowed = changes("RemediationAllowed", "False").map(|reason| format!("not allowed: {reason}"));
    let evaluated = changes("Evaluated", "False").map(|reason| format!("not evaluated: {reason}"));
    let paused = changes("Paused", "True").map(|_| "paused".to_owned());
    allowed.into_iter().chain(evaluated).chain(paused).collect()
}

/// Status and reason of a condition.
fn state<'a>(object: &'a Value, type_: &str) -> Option<(&'a str, &'a str)> {
    let condition = condition(object, type_)?;
    Some((text(condition, "/status"), text(condition, "/reason")))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;
    use scenario::kinds;
    use serde_json::json;

    use super::*;

    fn applied(kind: &str, object: Value) -> Observation {
        Observation {
            at: Timestamp::UNIX_EPOCH,
            what: Seen::Applied(kinds::find(kind).unwrap(), Box::new(object)),
        }
    }

    fn with(conditions: &[(&str, &str, &str)]) -> Value {
        let conditions = conditions
            .iter()
            .map(|(type_, status, reason)| json!({ "type": type_, "status": status, "reason": reason }));
        json!({ "status": { "conditions": conditions.collect::<Vec<_>>() } })
    }

    const FAILED: (&str, &str, &str) = ("HealthCheckSucceeded", "False", "UnhealthyNode");
    const PASSED: (&str, &str, &str) = ("HealthCheckSucceeded", "True", "HealthCheckSucceeded");
    const REQUESTED: (&str, &str, &str) = ("OwnerRemediated", "False", "WaitingForRemediation");

    #[rstest]
    #[case::failed(&[PASSED], &[FAILED, REQUESTED], &["failed: UnhealthyNode", "owner: WaitingForRemediation"])]
    #[case::recovered(&[FAILED, REQUESTED], &[PASSED], &["passes again", "owner: withdrawn"])]
    #[case::first_pass(&[], &[PASSED], &[])]
    #[case::unchanged(&[FAILED], &[FAILED], &[])]
    fn changes_of_conditions_of_machines_count(
        #[case] before: &[(&str, &str, &str)],
        #[case] after: &[(&str, &str, &str)],
        #[case] expected: &[&str],
    ) {
        let observation = applied("Machine", with(after));
        assert_eq!(events(&observation, Some(&with(before))), expected);
    }

    #[rstest]
    #[case::too_many(("RemediationAllowed", "False", "TooManyUnhealthy"), &["not allowed: TooManyUnhealthy"])]
    #[case::allowed(("RemediationAllowed", "True", "RemediationAllowed"), &[])]
    #[case::unreachable(("Evaluated", "False", "TargetUnreachable"), &["not evaluated: TargetUnreachable"])]
    #[case::paused(("Paused", "True", "Paused"), &["paused"])]
    fn changes_of_conditions_of_checks_count(#[case] condition: (&str, &str, &str), #[case] expected: &[&str]) {
        let after = with(&[condition]);
        assert_eq!(events(&applied("MachineHealthCheck", after.clone()), None), expected);
        assert_eq!(
            events(&applied("MachineHealthCheck", after.clone()), Some(&after)),
            [""; 0]
        );
    }
}
