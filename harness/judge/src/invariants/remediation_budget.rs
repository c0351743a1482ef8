//! I23: the budget of remediations. When a health check requests a remediation, the Machines in remediation, those with a
//! request to another controller included, are at most as many as its limits allow; the Machine is neither being deleted nor
//! excluded; no other check selects it; and no cooldown is running.
//!
//! What a user changed a moment ago may not be known to the controller yet: the former version of a check, and a Machine
//! that was not excluded, count until then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::{GoDuration, keys};
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, annotation, is_deleting, name, share, text, uid};
use crate::remediation::{
    checks_of, condition, condition_status, is_excluded, is_inactive, requests, selects, setting,
};

#[derive(Debug, Default)]
pub(super) struct RemediationBudget {
    /// By check: the last storm.
    storms: BTreeMap<String, Storm>,
    /// Former versions of checks, and when users replaced them. `None`: the check did not exist.
    former: BTreeMap<String, Vec<(Timestamp, Option<Value>)>>,
    /// By Machine: since when it is being deleted or excluded.
    barred: BTreeMap<String, Timestamp>,
    /// The Machines whose remediation by their owner did not continue for some time.
    left: BTreeSet<String>,
    /// The Machines that another controller remediates, each with its check: the next request for one, of an escalation,
    /// begins no remediation.
    begun: BTreeSet<(String, String)>,
}

/// A time in which too many Machines were unhealthy.
#[derive(Debug)]
struct Storm {
    /// When the check last reported it.
    last: Timestamp,
    /// The shortest cooldown of the check since.
    cooldown: Duration,
}

impl Check for RemediationBudget {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        self.follow_check(context);
        self.follow_machine(context);
        let machine = requested(context)?;
        let forbidden = self.forbidden(context, machine);
        let request = context.observation.what.applied_any();
        if let Some(check) = request.and_then(|request| annotation(request, keys::HEALTH_CHECK_ANNOTATION)) {
            self.begun.insert((check.to_owned(), name(machine).to_owned()));
        }
        let what = forbidden?;
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
    fn follow_check(&mut self, context: &CheckContext) {
        let Some(check) = context.applied("MachineHealthCheck") else {
            return;
        };
        let (now, cooldown) = (context.at(), cooldown(check));
        let being_remediated = |machine: &str| {
            let remediations = check.pointer("/status/remediations").and_then(Value::as_array);
            remediations.is_some_and(|all| all.iter().any(|one| one["machine"] == machine))
        };
        self.begun
            .retain(|(of, machine)| of != name(check) || being_remediated(machine));
        // A condition of an earlier generation is that of another limit.
        let allowed = condition(check, "RemediationAllowed")
            .filter(|one| one["observedGeneration"] == check["metadata"]["generation"]);
        let reason = allowed.map_or("", |one| text(one, "/reason"));
        if reason == "TooManyUnhealthy" && !is_below_range(check) {
            let storm = Storm { last: now, cooldown };
            self.storms.insert(uid(check).to_owned(), storm);
        } else if let Some(storm) = self.storms.get_mut(uid(check)) {
            storm.cooldown = storm.cooldown.min(cooldown);
        }
        let of_user = |check: &Value| {
            (
                check["spec"].clone(),
                check["metadata"]["annotations"].clone(),
                is_deleting(check),
            )
        };
        if context.before.map(of_user) != Some(of_user(check)) {
            let former = self.former.entry(uid(check).to_owned()).or_default();
            former.push((now, context.before.cloned()));
        }
    }

    fn follow_machine(&mut self, context: &CheckContext) {
        let Some(machine) = context.applied("Machine") else {
            return;
        };
        if is_deleting(machine) || is_excluded(machine) {
            self.barred.entry(uid(machine).to_owned()).or_insert(context.at());
        } else {
            self.barred.remove(uid(machine));
        }
        if is_left(machine) {
            self.left.insert(uid(machine).to_owned());
        }
    }

    /// The versions of the check that the controller may know, the current one last; `None`: it may not know it at all.
    fn known_versions(&self, check: &Value, context: &CheckContext) -> Vec<Option<Value>> {
        let former = self.former.get(uid(check)).into_iter().flatten();
        let unseen = former.filter(|(changed, _)| context.may_be_unseen(*changed));
        unseen
            .map(|(_, version)| version.clone())
            .chain([Some(check.clone())])
            .collect()
    }

    fn forbidden(&self, context: &CheckContext, machine: &Value) -> Option<String> {
        let is_known = |what: fn(&Value) -> bool| {
            let since = self.barred.get(uid(machine)).copied();
            let seen = since.is_some_and(|since| !context.may_be_unseen(since));
            what(machine) && context.before.map_or(seen, what)
        };
        if is_known(is_deleting) {
            return Some("it is being deleted".to_owned());
        }
        if is_known(is_excluded) {
            return Some("an annotation excludes it".to_owned());
        }
        let is_active = |check: &Value| {
            let versions = self.known_versions(check, context);
            let active = |version: &Option<Value>| {
                let version = version.as_ref();
                version.is_some_and(|version| !is_inactive(version) && selects(version, machine))
            };
            versions.iter().all(active)
        };
        let checks: Vec<&Value> = checks_of(context.world, machine).collect();
        let known: Vec<&Value> = checks.iter().filter(|check| is_active(check)).copied().collect();
        if known.len() > 1 {
            let names: Vec<&str> = known.iter().map(|check| name(check)).collect();
            return Some(format!("the checks {} select it", names.join(" and ")));
        }
        let check = known.first().or(checks.first())?;
        let versions = self.known_versions(check, context).into_iter().flatten();
        let mut violations: Vec<Option<String>> = versions
            .map(|version| self.above_limits(context, &version, machine))
            .collect();
        let above = if violations.iter().all(Option::is_some) {
            violations.pop().flatten()
        } else {
            None
        };
        above.or_else(|| self.during_cooldown(check, context.at()))
    }

    /// Which limit of the check the Machines in remediation exceed, because of the request for this one.
    fn above_limits(&self, context: &CheckContext, check: &Value, requested: &Value) -> Option<String> {
        let world = context.world;
        let reported = check["status"]["expectedMachines"].as_u64().unwrap_or_default();
        let targets: Vec<&Value> = world.of_kind("Machine").filter(|other| selects(check, other)).collect();
        // The controller may not have observed the last deletion.
        let expected =
            i64::try_from(targets.len().max(usize::try_from(reported).unwrap_or_default())).unwrap_or(i64::MAX);
        let requests = requests(world);
        let in_remediation = |target: &&&Value| {
            condition_status(target, keys::OWNER_REMEDIATED) == "False" || requests.contains_key(name(target))
        };
        let all: Vec<&Value> = targets.iter().filter(in_remediation).copied().collect();
        let in_flight = all
            .iter()
            .filter(|target| requests.contains_key(name(target)) || !self.left.contains(uid(target)));
        let (all, in_flight) = (all.len(), in_flight.count());
        // A limit that has become smaller does not end the remediations that are in flight.
        let goes_on = self
            .begun
            .contains(&(name(check).to_owned(), name(requested).to_owned()));
        let limits = limits(check, expected).into_iter();
        limits.filter(|limit| limit.counts_all || !goes_on).find_map(|limit| {
            let count = if limit.counts_all { all } else { in_flight };
            let exceeds = i64::try_from(count).unwrap_or(i64::MAX) > limit.most;
            let (field, most) = (limit.field, limit.most);
            exceeds.then(|| format!("{count} of {expected} machines are in remediation, and {field} allows {most}"))
        })
    }

    fn during_cooldown(&self, check: &Value, now: Timestamp) -> Option<String> {
        let Storm { last, cooldown } = self.storms.get(uid(check))?;
        // Times in a status have whole seconds.
        let end = after(*last, cooldown.saturating_sub(Duration::from_secs(1)));
        (now < end).then(|| format!("too many were unhealthy until {last}, and the cooldown is {cooldown:?}"))
    }
}

/// Whether the check reports fewer unhealthy Machines than its range remediates, for which the reason is the same.
fn is_below_range(check: &Value) -> bool {
    let count = |field: &str| check["status"][field].as_i64().unwrap_or_default();
    let unhealthy = count("expectedMachines") - count("currentHealthy");
    range_of(check).is_some_and(|(lowest, _)| unhealthy < lowest)
}

/// Both ends of the range of a check in either spelling.
fn range_of(check: &Value) -> Option<(i64, i64)> {
    let range = setting(check, "unhealthyRange", "/remediation/triggerIf/unhealthyInRange")?.as_str()?;
    let (lowest, highest) = range.trim_matches(['[', ']']).split_once('-')?;
    Some((lowest.parse().ok()?, highest.parse().ok()?))
}

fn cooldown(check: &Value) -> Duration {
    let text = check["spec"]["stormCooldown"].as_str().unwrap_or_default();
    text.parse::<GoDuration>()
        .map(|cooldown| cooldown.0)
        .unwrap_or_default()
}

/// Whether the remediation of the Machine by its owner does not continue: it keeps no other Machine from its remediation.
fn is_left(machine: &Value) -> bool {
    let is_preserved = machine.pointer("/status/currentStatus/preserveExpiryTime").is_some();
    let to_rollout =
        condition(machine, keys::OWNER_REMEDIATED).is_some_and(|condition| condition["reason"] == "CannotBeRemediated");
    machine["metadata"]["ownerReferences"].is_null() || is_preserved || to_rollout
}

/// A limit of a check.
struct Limit {
    field: &'static str,
    /// A number of Machines.
    most: i64,
    /// Whether a Machine counts whose remediation does not continue.
    counts_all: bool,
}

/// The limits of a check.
fn limits(check: &Value, expected: i64) -> Vec<Limit> {
    let limit = |field, most, counts_all| Limit {
        field,
        most,
        counts_all,
    };
    let mut limits = Vec::new();
    if let Some((_, highest)) = range_of(check) {
        limits.push(limit("unhealthyRange", highest, true));
    } else if let Some(most) = setting(
        check,
        "maxUnhealthy",
        "/remediation/triggerIf/unhealthyLessThanOrEqualTo",
    ) {
        limits.push(limit("maxUnhealthy", share(most, expected, false), true));
    }
    if let Some(most) = check["spec"].get("maxInFlight") {
        limits.push(limit("maxInFlight", share(most, expected, true), false));
    }
    limits
}
