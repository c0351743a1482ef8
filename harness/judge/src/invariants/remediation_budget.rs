//! I23: the budget of remediations. When a health check requests a remediation, the Machines in remediation, those with a
//! request to another controller included, are at most as many as its limits allow; the Machine is neither being deleted nor
//! excluded; no other check selects it; and no cooldown is running.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::{GoDuration, keys};
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, annotation, is_deleting, name, share, text, uid};
use crate::remediation::{checks_of, condition, condition_status, is_excluded, requests, selects, setting};

#[derive(Debug, Default)]
pub(super) struct RemediationBudget {
    /// By check: when it last reported that too many Machines were unhealthy.
    too_many: BTreeMap<String, Timestamp>,
}

impl Check for RemediationBudget {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(check) = context.applied("MachineHealthCheck") {
            let reason = condition(check, "RemediationAllowed").map_or("", |one| text(one, "/reason"));
            if reason == "TooManyUnhealthy" {
                self.too_many.insert(uid(check).to_owned(), context.at());
            }
        }
        let machine = requested(context)?;
        let what = self.forbidden(context, machine)?;
        Some(format!(
            "the remediation of machine {} was requested at {}: {what}",
            name(machine),
            context.at()
        ))
    }
}

/// The Machine whose remediation this event requests.
pub(super) fn requested<'a>(context: &CheckContext<'a>) -> Option<&'a Value> {
    if let Some(machine) = context.applied("Machine") {
        let asked = |machine: &Value| condition_status(machine, keys::OWNER_REMEDIATED) == "False";
        let is_new = asked(machine) && !context.before.is_some_and(asked);
        return Some(machine).filter(|_| is_new);
    }
    let request = context.observation.what.applied_any()?;
    let is_request = annotation(request, keys::HEALTH_CHECK_ANNOTATION).is_some() && context.before.is_none();
    context.world.object("Machine", name(request)).filter(|_| is_request)
}

impl RemediationBudget {
    fn forbidden(&self, context: &CheckContext, machine: &Value) -> Option<String> {
        let world = context.world;
        if is_deleting(machine) && context.before.is_none_or(is_deleting) {
            return Some("it is being deleted".to_owned());
        }
        if is_excluded(machine) && context.before.is_none_or(is_excluded) {
            return Some("an annotation excludes it".to_owned());
        }
        let checks: Vec<&Value> = checks_of(world, machine).collect();
        if checks.len() > 1 {
            let names: Vec<&str> = checks.iter().map(|check| name(check)).collect();
            return Some(format!("the checks {} select it", names.join(" and ")));
        }
        let check = checks.first()?;
        let reported = check["status"]["expectedMachines"].as_u64().unwrap_or_default();
        let targets: Vec<&Value> = world.of_kind("Machine").filter(|other| selects(check, other)).collect();
        // The controller may not have observed the last deletion.
        let expected =
            i64::try_from(targets.len().max(usize::try_from(reported).unwrap_or_default())).unwrap_or(i64::MAX);
        let requests = requests(world);
        let in_remediation = |target: &&&Value| {
            condition_status(target, keys::OWNER_REMEDIATED) == "False" || requests.contains_key(name(target))
        };
        let count = targets.iter().filter(in_remediation).count();
        for (limit, text) in limits(check, expected) {
            if i64::try_from(count).unwrap_or(i64::MAX) > limit {
                return Some(format!(
                    "{count} of {expected} machines are in remediation, and {text} allows {limit}"
                ));
            }
        }
        self.cooldown(check, context.at())
    }

    fn cooldown(&self, check: &Value, now: Timestamp) -> Option<String> {
        let given = check["spec"]["stormCooldown"].as_str()?.parse::<GoDuration>().ok()?.0;
        let last = self.too_many.get(uid(check))?;
        // Times in a status have whole seconds.
        let end = after(*last, given.saturating_sub(Duration::from_secs(1)));
        (now < end).then(|| format!("too many were unhealthy until {last}, and the cooldown is {given:?}"))
    }
}

/// The limits of a check in machines, with their names.
fn limits(check: &Value, expected: i64) -> Vec<(i64, &'static str)> {
    let mut limits = Vec::new();
    let range = setting(check, "unhealthyRange", "/remediation/triggerIf/unhealthyInRange").and_then(Value::as_str);
    let highest = range.and_then(|range| range.trim_end_matches(']').split_once('-')?.1.parse().ok());
    if let Some(highest) = highest {
        limits.push((highest, "unhealthyRange"));
    } else if let Some(most) = setting(
        check,
        "maxUnhealthy",
        "/remediation/triggerIf/unhealthyLessThanOrEqualTo",
    ) {
        limits.push((share(most, expected, false), "maxUnhealthy"));
    }
    if let Some(most) = check["spec"].get("maxInFlight") {
        limits.push((share(most, expected, true), "maxInFlight"));
    }
    limits
}
