//! One pass of a health check: evaluates its machines, and decides which of them are remediated.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::health_check::RequestedRemediation;
use mcm_api::{GoDuration, MachineHealthCheck, keys};

use super::breaker::{Allowance, allowance, is_below};
use super::conditions::{EVALUATED, MachineConditions, PAUSED, REMEDIATION_ALLOWED, is_with_owner};
use super::evaluate::{Health, evaluate};
use super::events::{ignored_cluster_name, marked, warning, without_owner};
use super::judged::{Judged, WITH_OWNER};
use super::outcome::{Action, Outcome, Plan, Remediated, Remediator, State};
use super::policy::{Policy, Remediation};
use super::problem::PolicyError;
use super::requests::{self, MachineRequests, Step};
use super::status::{Draft, number, stamp};
use super::view::{Connection, NodeState, RequestView, Settings, Target, View};
use crate::ownership::controller;
use crate::remediation::{is_paused, is_skipped, must_remediate};

/// Whether a decision needs the requests to other controllers, and the templates.
pub fn needs_requests(check: &MachineHealthCheck, policy: &Policy) -> bool {
    policy.remediation != Remediation::Owner || !check.status.remediations.is_empty()
}

/// The plan of a pass. `policy`: the normalized spec, or what is wrong with it.
pub fn decide(view: &View, policy: Result<&Policy, &[PolicyError]>, settings: &Settings, now: Timestamp) -> Plan {
    let check = &view.check;
    if check.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let mut draft = Draft::new(check, now);
    let paused = is_paused(&check.metadata);
    draft.condition(PAUSED, paused, if paused { "Paused" } else { "NotPaused" }, "");
    if paused {
        return written(draft, Vec::new());
    }
    match policy {
        Err(errors) => invalid(draft, errors),
        Ok(policy) => match view.connection {
            Connection::Lost { since } if !defect!(OutageIsCharged) => unreachable(draft, since),
            _ => Pass::new(view, policy, settings, now).plan(draft),
        },
    }
}

/// A plan that records warnings, and writes the status if it changed. A process that dies in between repeats a warning
/// instead of losing it.
fn written(draft: Draft, warnings: Vec<Action>) -> Plan {
    let status = draft.changed().map(|status| Action::WriteStatus(Box::new(status)));
    Plan {
        actions: warnings.into_iter().chain(status).collect(),
        ..Plan::default()
    }
}

fn invalid(mut draft: Draft, errors: &[PolicyError]) -> Plan {
    let texts: Vec<String> = errors.iter().map(PolicyError::to_string).collect();
    let message = texts.join("; ");
    draft.status.remediations_allowed = 0;
    draft.condition(
        REMEDIATION_ALLOWED,
        false,
        "InvalidSpec",
        "nothing is remediated until the spec is corrected",
    );
    let changed = draft.condition(EVALUATED, false, "InvalidSpec", &message);
    let event = changed.then(|| warning("InvalidSpec", message));
    let event = event.into_iter().chain(ignored_cluster_name(draft.check()));
    Plan {
        outcome: Outcome {
            short_circuited: true,
            ..Outcome::default()
        },
        ..written(draft, event.collect())
    }
}

fn unreachable(mut draft: Draft, since: Timestamp) -> Plan {
    let message = format!(
        "an API server does not respond since {}; nothing is evaluated",
        stamp(since).0
    );
    draft.condition(EVALUATED, false, "TargetUnreachable", &message);
    let events = ignored_cluster_name(draft.check()).into_iter().collect();
    written(draft, events)
}

/// Whether requests may be made.
#[derive(Clone, Copy)]
struct Permission {
    is_given: bool,
    /// When the check decides again; `None`: it may request something, or it depends on the machines.
    until: Option<Timestamp>,
}

impl Permission {
    fn refused(until: Option<Timestamp>) -> Self {
        Self { is_given: false, until }
    }
}

/// One pass over the machines of a valid check.
struct Pass<'a> {
    view: &'a View,
    policy: &'a Policy,
    settings: &'a Settings,
    now: Timestamp,
    judged: Vec<Judged<'a>>,
    /// Selected machines that an annotation excludes, or that another check selects too.
    left_out: Vec<&'a Target>,
    /// Requests about machines that the check does not select any more, or leaves out.
    strays: BTreeMap<String, MachineRequests<'a>>,
}

impl<'a> Pass<'a> {
    fn new(view: &'a View, policy: &'a Policy, settings: &'a Settings, now: Timestamp) -> Self {
        let mut machine_requests = requests::machine_requests(view, policy);
        let (mut judged, mut left_out) = (Vec::new(), Vec::new());
        for target in &view.targets {
            let mut hand = machine_requests.remove(target.name()).unwrap_or_default();
            let orphaned = std::mem::take(&mut hand.orphaned);
            let is_left_out = is_skipped(&target.machine.metadata) && !defect!(PausedMachinesAreRemediated)
                || view.overlaps.contains_key(target.name()) && !defect!(ChecksRemediateTogether);
            if is_left_out {
                // Nothing remediates it, as if it were not selected.
                left_out.push(target);
                machine_requests.insert(target.name().to_owned(), hand);
                continue;
            }
            hand.own.extend(orphaned);
            let health = evaluate(target, policy, view.connection, settings, now);
            let ends = health == Health::Healthy || policy.remediation == Remediation::Owner;
            let is_over = ends && hand.own.is_empty();
            if is_over && matches!(view.requests, RequestView::Known(_)) {
                // Its controller has let the request go.
                hand.entry = None;
            }
            judged.push(Judged {
                health,
                with_owner: is_with_owner(&target.machine),
                target,
                machine_requests: hand,
                next: None,
                text: String::new(),
                step: Step::default(),
                asks_owner: false,
            });
        }
        // Requests of others about unknown machines are none of the check's business.
        machine_requests.retain(|_, hand| hand.entry.is_some() || !hand.own.is_empty());
        Self {
            view,
            policy,
            settings,
            now,
            judged,
            left_out,
            strays: machine_requests,
        }
    }

    fn plan(mut self, mut draft: Draft) -> Plan {
        let expected = self.judged.len();
        let healthy = self.judged.iter().filter(|one| one.counts_as_healthy()).count();
        let answer = allowance(
            self.policy.limit,
            expected,
            expected.saturating_sub(healthy),
            self.settings.exclusive_limit,
        );
        let mut events: Vec<Action> = ignored_cluster_name(&self.view.check).into_iter().collect();
        let permission = self.remediation_allowed(&mut draft, &answer, &mut events);
        self.choose(permission);
        let machines = self.machine_actions(&mut events);
        let kept_entries = self.entries();
        let strays: Vec<Action> = self.stray_actions();
        draft.status.remediations = kept_entries;
        draft.status.expected_machines = number(expected);
        draft.status.current_healthy = number(healthy);
        draft.status.remediations_allowed = if permission.is_given {
            number(answer.remaining)
        } else {
            0
        };
        draft.status.observed_generation = self.view.check.metadata.generation.unwrap_or_default();
        let unreadable = self.evaluated(&mut draft, &mut events);
        draft.list(&self.judged);
        let wake = self.wake(&draft, permission);
        let outcome = self.outcome(self.is_storm(&answer));
        let status = draft.changed().map(|status| Action::WriteStatus(Box::new(status)));
        let writes = status.into_iter().chain(machines).chain(strays);
        // A process that dies in between repeats a warning instead of losing it.
        let actions = events.into_iter().chain(writes);
        Plan {
            actions: actions.collect(),
            wake,
            outcome,
            after_failure: unreadable,
        }
    }

    /// Sets the condition `RemediationAllowed`, and returns whether requests may be made.
    fn remediation_allowed(&self, draft: &mut Draft, answer: &Allowance, events: &mut Vec<Action>) -> Permission {
        let unhealthy = self.judged.iter().any(Judged::is_unhealthy);
        self.update_cooldown(draft, answer);
        if !answer.allowed {
            let changed = draft.condition(REMEDIATION_ALLOWED, false, TOO_MANY, &answer.message);
            let waiting = ["Pending", "NotEvaluated", "Recovered"];
            let known = self.view.check.status.unhealthy.iter();
            let is_first = !known.clone().any(|entry| !waiting.contains(&entry.reason.as_str()));
            if unhealthy && (changed || is_first) {
                events.push(warning(
                    "RemediationRestricted",
                    format!("Remediation is not allowed: {}", answer.message),
                ));
            }
            return Permission::refused(None);
        }
        if let Some(until) = draft.status.cooldown_until.clone() {
            let message = format!(
                "{}; too many were unhealthy a moment ago, so that remediation waits for {} until {}",
                answer.message,
                GoDuration(self.policy.storm_cooldown),
                until.0
            );
            draft.condition(REMEDIATION_ALLOWED, false, "StormCooldown", &message);
            return Permission::refused(Some(until.0));
        }
        // Without an unhealthy machine a start of the process changes nothing.
        if let Some(until) = self.observed_enough_at().filter(|_| unhealthy) {
            let message = format!(
                "{}; the machines are observed since a moment ago, so that remediation waits until {}",
                answer.message,
                stamp(until).0
            );
            draft.condition(REMEDIATION_ALLOWED, false, "JustConnected", &message);
            return Permission::refused(Some(until));
        }
        draft.condition(REMEDIATION_ALLOWED, true, REMEDIATION_ALLOWED, &answer.message);
        Permission {
            is_given: true,
            until: None,
        }
    }

    /// Begins the cooldown when too many machines are not unhealthy any more, also if too few are then, and ends it. Whether too
    /// many were is in the status: the limit may have changed since.
    fn update_cooldown(&self, draft: &mut Draft, answer: &Allowance) {
        let is_storm = self.is_storm(answer);
        let status = &mut draft.status;
        let cooldown = self.policy.storm_cooldown;
        if is_storm {
            status.too_many_since.get_or_insert_with(|| stamp(self.now));
        } else if status.too_many_since.take().is_some() && !defect!(CooldownIgnored) {
            status.cooldown_until = self.now.checked_add(cooldown).ok().map(stamp);
        }
        let ends = |until: &Time| is_storm || cooldown.is_zero() || until.0 <= self.now;
        status.cooldown_until.take_if(|until| ends(until));
    }

    /// Whether too many machines are unhealthy. The answer is the same if there are too few.
    fn is_storm(&self, answer: &Allowance) -> bool {
        let healthy = self.judged.iter().filter(|one| one.counts_as_healthy()).count();
        !answer.allowed && !is_below(self.policy.limit, self.judged.len().saturating_sub(healthy))
    }

    /// When this process has observed the machines for long enough; `None`: it has. An outage, or the time before a process
    /// starts, may have hidden that machines recovered.
    fn observed_enough_at(&self) -> Option<Timestamp> {
        let Connection::Up { since, after_outage } = self.view.connection else {
            return None;
        };
        let until = since.max(after_outage)?.checked_add(self.settings.outage_grace).ok()?;
        (until > self.now && !defect!(OutageIsCharged)).then_some(until)
    }

    /// Decides for which machines something is requested.
    fn choose(&mut self, permission: Permission) {
        let may_request = permission.is_given;
        let limit = self
            .policy
            .max_in_flight
            .map(|amount| amount.rounded_up(self.judged.len()));
        let in_flight = self.judged.iter().filter(|one| one.takes_place()).count();
        let mut room = limit.map_or(usize::MAX, |limit| limit.saturating_sub(in_flight));
        let unreadable = self.view.requests.is_unreadable();
        for index in self.order() {
            let Some(one) = self.judged.get_mut(index) else {
                continue;
            };
            let may_begin = may_request && (room > 0 || one.is_in_remediation());
            match &self.policy.remediation {
                _ if unreadable && (one.machine_requests.is_any() || self.policy.remediation != Remediation::Owner) => {
                    one.keep_record()
                }
                Remediation::Owner if one.machine_requests.is_any() => one.step = requests::end(&one.machine_requests),
                Remediation::Owner => one.ask_owner(may_begin),
                Remediation::External(_) if one.with_owner => one.text = WITH_OWNER.to_owned(),
                Remediation::External(steps) => {
                    let machine = &one.target.machine;
                    one.step = requests::go_on(self.view, machine, &one.machine_requests, steps, may_begin, self.now);
                    one.text.clone_from(&one.step.text);
                }
            }
            if one.text.is_empty() && !may_request {
                one.text = "remediation is not allowed".to_owned();
            } else if one.text.is_empty() && !may_begin {
                one.text = "as many machines as maxInFlight allows are being remediated".to_owned();
            }
            let has_owner = controller(&one.target.machine.metadata).is_some();
            let begins = one.asks_owner && has_owner || one.step.begins;
            room = room.saturating_sub(usize::from(begins));
            one.next = one.step.next.or(permission.until);
            if defect!(SecondMachineStarves) && one.machine_requests.is_any() {
                // An existing request ends the loop.
                break;
            }
        }
        for one in &mut self.judged {
            match &one.health {
                Health::Healthy if unreadable && one.machine_requests.is_any() => one.keep_record(),
                Health::Healthy if one.machine_requests.is_any() => {
                    one.step = requests::end(&one.machine_requests);
                    one.text = if one.machine_requests.own.is_empty() && one.machine_requests.foreign {
                        requests::FOREIGN.to_owned()
                    } else {
                        "its request ends".to_owned()
                    };
                }
                Health::Pending { next, .. } => {
                    one.next = *next;
                    one.step.entry.clone_from(&one.machine_requests.entry);
                    one.step.waits = one.machine_requests.is_any();
                }
                Health::NotCounted => one.step.entry.clone_from(&one.machine_requests.entry),
                _ => {}
            }
        }
    }

    /// The unhealthy machines in the order in which they are remediated: those that a user requests, then the newest, which
    /// host least.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.judged.len()).collect();
        order.retain(|index| self.judged.get(*index).is_some_and(Judged::is_unhealthy));
        let rank = |index: &usize| {
            let metadata = self.judged.get(*index).map(|one| &one.target.machine.metadata);
            let created = metadata.and_then(|metadata| metadata.creation_timestamp.as_ref());
            let created = created.map(|time| time.0);
            let requested = metadata.is_some_and(must_remediate);
            let name = metadata.and_then(|metadata| metadata.name.clone());
            (!requested, std::cmp::Reverse(created), name)
        };
        order.sort_by_cached_key(rank);
        order
    }

    /// The writes of machines, then their requests and events.
    fn machine_actions(&mut self, warnings: &mut Vec<Action>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut events = Vec::new();
        let check = &self.view.check;
        let external = self.policy.remediation != Remediation::Owner;
        let unreadable = self.view.requests.is_unreadable();
        for one in &mut self.judged {
            let machine = &one.target.machine;
            let mut conditions = MachineConditions::of(machine, stamp(self.now));
            let mut remediated = None;
            match &one.health {
                Health::Healthy => {
                    let hidden = external && one.machine_requests.own.is_empty() && defect!(HealthyKeepsFalse);
                    if !hidden {
                        conditions.set(keys::HEALTH_CHECK_SUCCEEDED, true, keys::HEALTH_CHECK_SUCCEEDED, "");
                    }
                    if !one.machine_requests.is_any() && requests::has_condition(&machine.status.conditions) {
                        conditions.remove(keys::EXTERNALLY_REMEDIATED);
                    }
                    if one.with_owner {
                        remediated = Some(Remediated::Ended(Remediator::Owner));
                    }
                }
                Health::Unhealthy { reason, message, .. } => {
                    if conditions.status(keys::HEALTH_CHECK_SUCCEEDED) != Some("False") {
                        events.push(marked(one.target.name(), check, reason));
                    }
                    conditions.set(keys::HEALTH_CHECK_SUCCEEDED, false, reason, message);
                    if one.asks_owner {
                        conditions.set(keys::OWNER_REMEDIATED, false, requests::WAITING, "");
                        remediated = Some(Remediated::Requested(Remediator::Owner));
                        if controller(&machine.metadata).is_none() {
                            warnings.push(without_owner(one.target.name()));
                        }
                    }
                    if let Some((reason, message)) = &one.step.condition {
                        conditions.set(keys::EXTERNALLY_REMEDIATED, false, reason, message);
                    } else if !external && !one.machine_requests.is_any() && !unreadable {
                        // The check had a template before.
                        conditions.remove(keys::EXTERNALLY_REMEDIATED);
                    }
                }
                Health::Pending { .. } | Health::NotCounted => {}
            }
            if let Some(conditions) = conditions.changed() {
                actions.push(Action::WriteConditions {
                    machine: one.target.name().to_owned(),
                    conditions,
                    remediated,
                });
            }
            actions.append(&mut one.step.actions);
        }
        for target in &self.left_out {
            let requested = self.strays.get(target.name()).is_some_and(|hand| !hand.own.is_empty());
            if !requested && !self.view.requests.is_unreadable() {
                let mut conditions = MachineConditions::of(&target.machine, stamp(self.now));
                conditions.remove(keys::EXTERNALLY_REMEDIATED);
                actions.extend(conditions.changed().map(|conditions| Action::WriteConditions {
                    machine: target.name().to_owned(),
                    conditions,
                    remediated: None,
                }));
            }
        }
        actions.append(&mut events);
        actions
    }

    /// The records of requests after this pass.
    fn entries(&self) -> Vec<RequestedRemediation> {
        let judged = self.judged.iter().filter_map(|one| one.step.entry.clone());
        let unreadable = self.view.requests.is_unreadable();
        let strays = self.strays.values().filter(|hand| unreadable || !hand.own.is_empty());
        let strays = strays.filter_map(|hand| hand.entry.clone());
        let mut entries: Vec<RequestedRemediation> = judged.chain(strays).collect();
        entries.sort_by(|one, other| one.machine.cmp(&other.machine));
        entries
    }

    /// The deletions of requests about machines that are gone, not selected any more, or excluded.
    fn stray_actions(&self) -> Vec<Action> {
        if defect!(OrphanRequestStays) || self.view.requests.is_unreadable() {
            return Vec::new();
        }
        self.strays
            .values()
            .flat_map(|hand| requests::end(hand).actions)
            .collect()
    }

    /// Sets the condition `Evaluated`; returns whether something could not be read.
    fn evaluated(&self, draft: &mut Draft, events: &mut Vec<Action>) -> bool {
        if let RequestView::Unreadable(why) = &self.view.requests {
            let message = format!("the requests to other controllers cannot be read: {why}");
            if draft.condition(EVALUATED, false, "RequestsUnreadable", &message) {
                events.push(warning("RequestsUnreadable", message));
            }
            return true;
        }
        if self.view.overlaps.is_empty() || defect!(ChecksRemediateTogether) {
            let is_observed = |target: &Target| target.node != NodeState::NotObserved;
            let message = if self.view.targets.iter().all(is_observed) {
                ""
            } else {
                "mcm has no target cluster (--target-kubeconfig=none): rules about Nodes are not evaluated"
            };
            draft.condition(EVALUATED, true, EVALUATED, message);
            return false;
        }
        let mut others: Vec<&str> = self.view.overlaps.values().map(String::as_str).collect();
        others.sort_unstable();
        others.dedup();
        let machines: Vec<&str> = self.view.overlaps.keys().map(String::as_str).take(LISTED).collect();
        let message = format!(
            "{} machine(s) are also selected by {}, and neither check remediates them: {}; change a selector",
            self.view.overlaps.len(),
            others.join(", "),
            machines.join(", ")
        );
        if draft.condition(EVALUATED, false, OVERLAPPING, &message) {
            events.push(warning(OVERLAPPING, message));
        }
        false
    }

    /// When the next decision is due.
    fn wake(&self, draft: &Draft, permission: Permission) -> Option<Duration> {
        if !permission.is_given && defect!(RestrictedChecksSleep) {
            return None;
        }
        let health = self.judged.iter().filter_map(|one| one.health.next());
        let steps = self.judged.iter().filter_map(|one| one.step.next);
        let cooldown = draft.status.cooldown_until.as_ref().map(|until| until.0);
        let first = health
            .chain(steps)
            .chain(cooldown)
            .chain(self.observed_enough_at())
            .min();
        let timed = first.map(|first| Duration::try_from(first.duration_since(self.now)).unwrap_or_default());
        let waits = self.judged.iter().any(|one| one.step.waits) || !self.strays.is_empty();
        let waits = (waits || defect!(StatusNeverRests)).then_some(self.settings.request_period);
        timed.into_iter().chain(waits).min()
    }

    fn outcome(&self, short_circuited: bool) -> Outcome {
        let mut machines: BTreeMap<State, usize> = State::ALL.into_iter().map(|state| (state, 0)).collect();
        for one in &self.judged {
            *machines.entry(one.state()).or_default() += 1;
        }
        Outcome {
            machines,
            short_circuited,
        }
    }
}

/// The reason of `RemediationAllowed` while the circuit breaker stops remediation.
const TOO_MANY: &str = "TooManyUnhealthy";
const OVERLAPPING: &str = "OverlappingMachineHealthCheck";
/// How many machines a message names.
const LISTED: usize = 10;
