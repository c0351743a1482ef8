//! I13: timeouts hold. Creation, health and drain timeouts expire neither earlier nor later than their limit, with a
//! tolerance of a minute and a retry period. A bootstrap token does not expire while its Machine may still join.
//!
//! Deadlines count from the moment at which the last disturbance of the controller ended: while the cloud fails, an API
//! server is cut off or no process runs, no deadline can be met. An Unknown Machine whose sibling is being replaced
//! waits for its turn (I12). If its timeout expired before the replacement joined, it has a medium retry period to
//! recover. The expiry of preservations is checked in `expiry`; volume detach is not timed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::cloud::CloudEvent;
use scenario::observation::Seen;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{after, creation_timeout, is_deleting, is_forced, label, name, phase, time, timeout_of, uid};
use crate::remediation::is_remediation_requested;
use crate::world::{WorldState, machines_of};

/// The timeouts of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Creation,
    Health,
    Drain,
}

/// A timeout that is running.
#[derive(Clone, Debug)]
struct Running {
    machine: String,
    limit: Limit,
    since: Timestamp,
    time: Duration,
    /// Whether the Machine waited for its turn at the last check.
    is_waiting: bool,
    /// When the Machine last waited for its turn.
    last_waited: Option<Timestamp>,
}

/// Running timeouts by Machine uid.
#[derive(Debug, Default)]
pub(super) struct Limits {
    running: BTreeMap<String, Running>,
    /// No deadline is before this one, cached; `None`: it must be recomputed.
    first: Cell<Option<Due>>,
}

/// A lower bound of all deadlines, and the start of the undisturbed time for which it was computed.
#[derive(Clone, Copy, Debug)]
struct Due {
    undisturbed_since: Option<Timestamp>,
    at: Option<Timestamp>,
}

impl Check for Limits {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            self.running.remove(uid(machine));
        }
        if let Seen::Cloud(CloudEvent::Kubelet(kubelet)) = &context.observation.what {
            let expired = kubelet.what == "Refused" && kubelet.message.contains("has expired");
            let machine = context.world.object("Machine", &kubelet.machine).filter(|_| expired)?;
            let until = after(
                time(machine, "/metadata/creationTimestamp")?,
                creation_timeout(machine, &context.rules.timeouts),
            );
            let may_join = !is_deleting(machine) && phase(machine) != "Failed" && context.at() < until;
            return may_join.then(|| {
                format!(
                    "the kubelet of machine {}, which may join until {until}, is rejected: {}",
                    kubelet.machine, kubelet.message
                )
            });
        }
        let machine = context.applied("Machine")?;
        self.wait_for_turns(context.at(), context.world);
        let early = self.too_early(machine, context);
        match running(machine, context) {
            Some(running) => {
                let known = self
                    .running
                    .get(uid(machine))
                    .filter(|known| known.limit == running.limit);
                let since = known.map_or(running.since, |known| known.since);
                // A shortened timeout starts to count at the edit at the earliest.
                let shortened = known.is_some_and(|known| running.time < known.time);
                let since = if shortened {
                    since.max(start_of(context.at(), running.time))
                } else {
                    since
                };
                let is_waiting = known.is_some_and(|known| known.is_waiting);
                let last_waited = known.and_then(|known| known.last_waited);
                let running = Running {
                    since,
                    is_waiting,
                    last_waited,
                    ..running
                };
                self.lower(running.due(context.rules));
                self.running.insert(uid(machine).to_owned(), running);
            }
            None => drop(self.running.remove(uid(machine))),
        }
        early
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let undisturbed_since = rules.undisturbed_since;
        if let Some(known) = self
            .first
            .get()
            .filter(|known| known.undisturbed_since == undisturbed_since)
        {
            return known.at;
        }
        let running = self.running.values().filter_map(|running| running.due(rules));
        let at = running.min();
        self.first.set(Some(Due { undisturbed_since, at }));
        at
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        // A Machine that waits for its turn is checked again when its turn may have come.
        self.first.take();
        self.wait_for_turns(now, world);
        let late = self
            .running
            .values()
            .find(|running| running.due(rules).is_some_and(|due| due <= now))?;
        let what = match late.limit {
            Limit::Creation => "has neither joined nor failed",
            Limit::Health => "is Unknown and not Failed",
            Limit::Drain => "is being deleted and its VM still exists",
        };
        let end = late.since.saturating_add(late.time).unwrap_or(late.since);
        Some(format!(
            "machine {} {what} since {}; its limit of {:?} ended at {end}",
            late.machine, late.since, late.time
        ))
    }
}

impl Running {
    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let timeouts = &rules.timeouts;
        let retry = match self.limit {
            // A failed call may be repeated once before the controller checks the limit.
            Limit::Creation => timeouts.long_retry,
            Limit::Health => timeouts.short_retry + timeouts.slack / 2,
            Limit::Drain => timeouts.long_retry + Duration::from_mins(2),
        };
        let due = timeouts.deadline(self.since, self.time + timeouts.slack + retry);
        let grace = timeouts.medium_retry + timeouts.slack + retry;
        let due = self
            .last_waited
            .map_or(due, |last_waited| due.max(timeouts.deadline(last_waited, grace)));
        let after_disturbance = timeouts.deadline(rules.undisturbed_since?, timeouts.slack + retry);
        Some(due.max(after_disturbance))
    }
}

impl Limits {
    /// Moves the cached bound to a deadline that is earlier. One that moves later or ends leaves it, so that an observation
    /// does not compute all deadlines; `overdue` computes the bound again when it is reached.
    fn lower(&mut self, due: Option<Timestamp>) {
        if let Some(first) = self.first.get_mut() {
            first.at = first.at.into_iter().chain(due).min();
        }
    }

    /// Restarts the timeout of each waiting Machine, so that the controller has time to observe that its turn has come.
    fn wait_for_turns(&mut self, now: Timestamp, world: &WorldState) {
        for running in self.running.values_mut() {
            let is_waiting = running.limit == Limit::Health && waits_for_turn(running, world);
            if is_waiting || running.is_waiting {
                running.since = running.since.max(start_of(now, running.time));
                running.last_waited = Some(now);
            }
            running.is_waiting = is_waiting;
        }
    }

    /// Reports a Machine that became Failed before its timeout expired.
    fn too_early(&self, machine: &Value, context: &CheckContext) -> Option<String> {
        let before = context
            .before
            .filter(|before| phase(before) != "Failed" && phase(machine) == "Failed")?;
        if is_remediation_requested(before) || is_remediation_requested(machine) {
            // A health check has timeouts of its own.
            return None;
        }
        let known = self.running.get(uid(machine))?;
        let limit_name = match known.limit {
            Limit::Creation if text_of(machine).contains("using old node") => return None,
            Limit::Creation => "creation timeout",
            Limit::Health if phase(before) == "Unknown" => {
                if let Some(sibling) = joined_lately(before, known.time, context) {
                    return Some(format!(
                        "machine {} is Failed at {}, although its sibling {sibling}, for which it waited, has just joined",
                        name(machine),
                        context.at()
                    ));
                }
                "health timeout"
            }
            Limit::Health | Limit::Drain => return None,
        };
        // Timestamps in a status have whole seconds.
        let earliest = after(known.since, known.time.saturating_sub(Duration::from_secs(1)));
        (context.at() < earliest).then(|| {
            format!(
                "machine {} is Failed at {}, before its {limit_name} of {:?} since {} has expired",
                name(machine),
                context.at(),
                known.time,
                known.since
            )
        })
    }
}

/// When a timeout of `time` that expires now began.
fn start_of(now: Timestamp, time: Duration) -> Timestamp {
    let start = now.checked_sub(jiff::SignedDuration::try_from(time).unwrap_or_default());
    start.unwrap_or(now)
}

fn text_of(machine: &Value) -> &str {
    crate::object::text(machine, "/status/lastOperation/description")
}

/// The timeout that runs for a Machine in its state; `None`: none.
fn running(machine: &Value, context: &CheckContext) -> Option<Running> {
    let timeouts = &context.rules.timeouts;
    let (limit, since, time) = if let Some(deleted) = time(machine, "/metadata/deletionTimestamp") {
        // A deletion cannot end while users hold the Machine with their own finalizers, or without mcm's finalizer.
        let ours = machine["metadata"]["finalizers"] == serde_json::json!([keys::MACHINE_FINALIZER]);
        let vm = context.world.vms_of(name(machine)).any(|vm| vm.state.is_live());
        if !ours || !vm {
            return None;
        }
        (
            Limit::Drain,
            deleted,
            if is_forced(machine) {
                Duration::ZERO
            } else {
                timeout_of(machine, "drainTimeout", timeouts.drain)
            },
        )
    } else {
        match phase(machine) {
            "" | "Pending" | "CrashLoopBackOff" => (
                Limit::Creation,
                time(machine, "/metadata/creationTimestamp")?,
                creation_timeout(machine, timeouts),
            ),
            "Unknown" if machine["spec"]["disableHealthTimeout"] != true => (
                Limit::Health,
                found_unhealthy_at(machine, context),
                timeout_of(machine, "healthTimeout", timeouts.health),
            ),
            _ => return None,
        }
    };
    Some(Running {
        machine: name(machine).to_owned(),
        limit,
        since,
        time,
        is_waiting: false,
        last_waited: None,
    })
}

/// When the controller found the Machine unhealthy. The write may be delayed by up to a pass and contains the time.
fn found_unhealthy_at(machine: &Value, context: &CheckContext) -> Timestamp {
    let pass = jiff::SignedDuration::try_from(context.rules.pass()).unwrap_or_default();
    let earliest = context.at().checked_sub(pass).unwrap_or(context.at());
    let named = time(machine, "/status/currentStatus/lastUpdateTime");
    named.map_or(context.at(), |named| named.clamp(earliest, context.at()))
}

/// A sibling that joined after the machine's timeout, less than a medium retry period ago.
fn joined_lately<'a>(machine: &Value, timeout: Duration, context: &CheckContext<'a>) -> Option<&'a str> {
    let over = after(time(machine, "/status/currentStatus/lastUpdateTime")?, timeout);
    let deployment = label(machine, keys::DEPLOYMENT_LABEL);
    // Timestamps in a status have whole seconds.
    let grace = context.rules.timeouts.medium_retry.min(timeout);
    let grace = grace.saturating_sub(Duration::from_secs(1));
    let mut siblings = context.world.of_kind("Machine").filter(|sibling| {
        let joined = time(sibling, "/status/currentStatus/lastUpdateTime").filter(|at| *at >= over);
        !deployment.is_empty()
            && label(sibling, keys::DEPLOYMENT_LABEL) == deployment
            && phase(sibling).starts_with("Running")
            && sibling
                .pointer("/status/lastOperation/type")
                .is_some_and(|last| last == "Create")
            && joined.is_some_and(|at| context.at() < after(at, grace))
    });
    siblings.next().map(name)
}

/// Whether another Machine of the deployment is being replaced.
fn waits_for_turn(running: &Running, world: &WorldState) -> bool {
    let Some(machine) = world.object("Machine", &running.machine) else {
        return false;
    };
    let deployment = label(machine, keys::DEPLOYMENT_LABEL);
    let under_way = |sibling: &Value| {
        name(sibling) != running.machine && !phase(sibling).starts_with("Running") && phase(sibling) != "Unknown"
    };
    !deployment.is_empty() && machines_of(world, deployment).any(under_way)
}
