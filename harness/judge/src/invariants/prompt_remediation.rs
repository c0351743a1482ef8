//! I25: each unhealthy Machine gets its request within one pass after it may. A state of the Node or the Machine that has lasted
//! longer than the timeout of an active check, a deleted Node and the annotation of a user mark the Machine, and a marked
//! Machine is requested while remediation is allowed. After an outage the timeouts begin again, after the grace. A request to
//! the owner ends when no check evaluates the Machine any more.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::{GoDuration, keys};
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{after, is_deleting, label, name, phase, share, text, time};
use crate::remediation::{
    checks_of, condition, condition_status, has_failed_check, is_excluded, is_remediation_requested,
    is_requested_by_user, is_unchecked, requests, selects, setting,
};
use crate::world::WorldState;

#[derive(Debug, Default)]
pub(super) struct PromptRemediation {
    /// By Machine: since when it waits, and for what.
    waiting: BTreeMap<String, (Timestamp, &'static str)>,
    /// Whether a check has existed.
    has_checks: bool,
    /// Whether mcm is cut off.
    is_cut_off: bool,
    /// The end of the last outage, as the world or a check shows it.
    connected: Option<Timestamp>,
}

/// What a Machine waits for.
const MARK: &str = "is not marked";
const REQUEST: &str = "has no request";
const WITHDRAWAL: &str = "is requested without a check";

impl Check for PromptRemediation {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        self.follow_outages(context);
        self.has_checks |= context.world.of_kind("MachineHealthCheck").next().is_some();
        if !self.has_checks {
            return None;
        }
        let kinds = ["MachineHealthCheck", "Machine", "Node"];
        let matters = kinds
            .iter()
            .any(|kind| context.applied(kind).is_some() || context.deleted(kind).is_some())
            || context.observation.what.applied_any().is_some();
        if matters {
            self.update(context.world, context.at(), context.rules.timeouts.slack);
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let first = self.waiting.values().map(|(since, _)| *since).min()?;
        rules.due(first, limit(rules))
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        self.update(world, now, rules.timeouts.slack);
        let late = |since: &Timestamp| rules.due(*since, limit(rules)).is_some_and(|due| due <= now);
        let (machine, (since, what)) = self.waiting.iter().find(|(_, (since, _))| late(since))?;
        Some(format!(
            "machine {machine} {what} at {now}, although it is due since {since}"
        ))
    }
}

/// A pass, the interval between two passes, and the grace after a process starts.
fn limit(rules: &JudgingRules) -> Duration {
    rules.pass() + rules.timeouts.slack + rules.timeouts.health / 40
}

impl PromptRemediation {
    fn follow_outages(&mut self, context: &CheckContext) {
        let is_cut_off = !context.rules.away.is_empty();
        let reconnected = std::mem::replace(&mut self.is_cut_off, is_cut_off) && !is_cut_off;
        let is_unreachable = |check: &Value| {
            condition(check, "Evaluated").is_some_and(|evaluated| evaluated["reason"] == "TargetUnreachable")
        };
        let check = context.applied("MachineHealthCheck");
        let evaluates_again =
            check.is_some_and(|check| context.before.is_some_and(is_unreachable) && !is_unreachable(check));
        if reconnected || evaluates_again {
            self.connected = Some(context.at());
        }
    }

    /// Computes for all Machines what they wait for; one that waits for the same as before keeps its time.
    fn update(&mut self, world: &WorldState, now: Timestamp, grace: Duration) {
        let requests = requests(world);
        let earliest = self.connected.map(|connected| after(connected, grace));
        let mut waiting = BTreeMap::new();
        for machine in world.of_kind("Machine") {
            let Some((expired, what)) = due_since(world, machine, &requests, earliest, now) else {
                continue;
            };
            let known = self.waiting.get(name(machine)).filter(|(_, known)| *known == what);
            let since = known.map_or(now, |(known, _)| *known).max(expired);
            waiting.insert(name(machine).to_owned(), (since, what));
        }
        self.waiting = waiting;
    }
}

/// Since when at the earliest a mark, a request or its end is due, as far as the objects tell.
fn due_since(
    world: &WorldState,
    machine: &Value,
    requests: &BTreeMap<&str, &Value>,
    earliest: Option<Timestamp>,
    now: Timestamp,
) -> Option<(Timestamp, &'static str)> {
    let is_replaced = is_deleting(machine) || matches!(phase(machine), "Failed" | "Terminating");
    if is_remediation_requested(machine) && has_failed_check(machine) && !is_replaced && is_unchecked(world, machine) {
        return Some((Timestamp::MIN, WITHDRAWAL));
    }
    let mut checks = checks_of(world, machine);
    let check = checks.next().filter(|_| checks.next().is_none())?;
    let evaluated = condition(check, "Evaluated").is_some_and(|one| one["status"] == "True");
    let ended = matches!(
        phase(machine),
        "Failed" | "Failed:Preserved" | "Terminating" | "InPlaceUpdating"
    );
    if is_deleting(machine) || is_excluded(machine) || ended || !evaluated {
        return None;
    }
    if condition_status(machine, keys::HEALTH_CHECK_SUCCEEDED) != "False" {
        return expired_at(world, machine, check, earliest).map(|expired| (expired, MARK));
    }
    let allowed = condition(check, "RemediationAllowed").filter(|one| one["status"] == "True")?;
    let external = ["escalatingRemediations", "remediationTemplate"]
        .iter()
        .any(|field| !check["spec"][field].is_null())
        || check["spec"].pointer("/remediation/templateRef").is_some();
    // No other controller repairs what is to be analysed.
    let is_kept = external && time(machine, "/status/currentStatus/preserveExpiryTime").is_some();
    let waits = machine["metadata"]["ownerReferences"].is_null() || is_kept || !has_room(world, check, requests);
    let asked = is_asked(machine, requests);
    let expired = expired_at(world, machine, check, earliest).filter(|expired| *expired < now)?;
    let since = time(allowed, "/lastTransitionTime")?.max(expired);
    (!waits && !asked).then_some((since, REQUEST))
}

/// Whether the remediation of the Machine is requested.
fn is_asked(machine: &Value, requests: &BTreeMap<&str, &Value>) -> bool {
    condition_status(machine, keys::OWNER_REMEDIATED) == "False"
        || condition_status(machine, keys::EXTERNALLY_REMEDIATED) == "False"
        || requests.contains_key(name(machine))
}

/// Whether fewer Machines are in remediation than `maxInFlight` of the check allows. All whose remediation was requested count,
/// also those whose remediation does not continue.
fn has_room(world: &WorldState, check: &Value, requests: &BTreeMap<&str, &Value>) -> bool {
    let Some(most) = check["spec"].get("maxInFlight") else {
        return true;
    };
    let recorded = check.pointer("/status/remediations").and_then(Value::as_array);
    let is_recorded =
        |machine: &Value| recorded.is_some_and(|all| all.iter().any(|one| one["machine"] == name(machine)));
    let targets: Vec<&Value> = world.of_kind("Machine").filter(|one| selects(check, one)).collect();
    let in_flight = targets.iter().filter(|one| is_asked(one, requests) || is_recorded(one));
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    count(in_flight.count()) < share(most, count(targets.len()), true)
}

/// When the first timeout of a rule ended, or any time in the past if the machine is unhealthy without one; `None`: none runs.
/// `earliest`: when timeouts may begin.
fn expired_at(world: &WorldState, machine: &Value, check: &Value, earliest: Option<Timestamp>) -> Option<Timestamp> {
    let node = world.object("Node", label(machine, keys::NODE_LABEL));
    if node.is_some_and(is_updated_in_place) {
        return None;
    }
    let created = time(machine, "/metadata/creationTimestamp")?;
    let at_once = is_requested_by_user(machine) || node.is_none() && has_joined(machine);
    let of_node = node.into_iter().flat_map(|node| node_timeouts(node, check));
    let startup = (node.is_none() && !has_joined(machine)).then(|| Some((created, startup_timeout(check)?)));
    let timeouts = of_node.chain(machine_timeouts(machine, check)).chain(startup.flatten());
    let ends = timeouts.filter_map(|(begins, timeout)| {
        let begins = earliest.map_or(begins, |earliest| earliest.max(begins));
        begins.checked_add(timeout).ok()
    });
    ends.chain(at_once.then_some(created)).min()
}

/// When the state of each rule about Nodes began, and the rule's timeout.
fn node_timeouts(node: &Value, check: &Value) -> Vec<(Timestamp, Duration)> {
    let rules = rules(check, "unhealthyConditions", "/checks/unhealthyNodeConditions");
    let found = rules.filter_map(|rule| {
        let found = condition(node, text(rule, "/type")).filter(|found| found["status"] == rule["status"])?;
        Some((time(found, "/lastTransitionTime")?, timeout_of(rule)?))
    });
    found.collect()
}

/// The same for rules about the Machine and its phase.
fn machine_timeouts(machine: &Value, check: &Value) -> Vec<(Timestamp, Duration)> {
    let nested = "/checks/unhealthyMachineConditions";
    let found = rules(check, "unhealthyMachineConditions", nested).filter_map(|rule| {
        let begins = match text(rule, "/type").strip_prefix("Phase=") {
            Some(expected) => {
                let base = phase(machine).split(':').next().unwrap_or_default();
                time(machine, "/status/currentStatus/lastUpdateTime").filter(|_| base == expected)
            }
            None => condition(machine, text(rule, "/type"))
                .filter(|found| found["status"] == rule["status"])
                .and_then(|found| time(found, "/lastTransitionTime")),
        };
        Some((begins?, timeout_of(rule)?))
    });
    found.collect()
}

fn rules<'a>(check: &'a Value, flat: &str, nested: &str) -> impl Iterator<Item = &'a Value> {
    setting(check, flat, nested)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn timeout_of(rule: &Value) -> Option<Duration> {
    match rule["timeoutSeconds"].as_u64() {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => Some(text(rule, "/timeout").parse::<GoDuration>().ok()?.0),
    }
}

/// How long a node may take to join; `None`: for ever.
fn startup_timeout(check: &Value) -> Option<Duration> {
    let seconds = check
        .pointer("/spec/checks/nodeStartupTimeoutSeconds")
        .and_then(Value::as_u64);
    let flat = text(check, "/spec/nodeStartupTimeout")
        .parse::<GoDuration>()
        .ok()
        .map(|timeout| timeout.0);
    let timeout = seconds.map(Duration::from_secs).or(flat)?;
    (!timeout.is_zero()).then_some(timeout)
}

/// Whether the Machine has conditions of its Node: those of health checks and of other controllers are not.
fn has_joined(machine: &Value) -> bool {
    let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
    let of_node = |condition: &&Value| {
        let type_ = text(condition, "/type");
        let is_foreign = type_.contains('/') && condition["lastHeartbeatTime"].is_null();
        !is_foreign && !keys::RESERVED_CONDITIONS.contains(&type_)
    };
    !label(machine, keys::NODE_LABEL).is_empty() && conditions.into_iter().flatten().any(|one| of_node(&one))
}

fn is_updated_in_place(node: &Value) -> bool {
    let update = condition(node, keys::IN_PLACE_UPDATE_CONDITION);
    update.is_some_and(|update| ["ReadyForUpdate", "UpdateFailed"].contains(&text(update, "/reason")))
}
