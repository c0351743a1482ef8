//! I13: timeouts hold. Creation, health and drain end neither earlier nor later than their limit, a minute and a retry
//! period; a bootstrap token does not run out while its Machine may still join.
//!
//! Deadlines count from the moment at which nothing kept the controller from its work any more: with a cloud that fails,
//! an API server that is cut off or no process nobody can be in time. An Unknown Machine whose sibling is being replaced
//! waits for its turn (I12); where its time ran out before that one joined, it has a medium retry period to come back. Ends
//! of preservations are in `expiry`; those of detaching are not timed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::cloud::CloudEvent;
use scenario::observation::Seen;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{after, creation_timeout, is_deleting, is_forced, label, name, phase, time, timeout_of, uid};
use crate::world::{WorldState, machines_of};

/// What runs out for a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Creation,
    Health,
    Drain,
}

/// One that runs.
#[derive(Clone, Debug)]
struct Running {
    machine: String,
    limit: Limit,
    since: Timestamp,
    time: Duration,
    /// Whether it waited for its turn when it was looked at last.
    waits: bool,
    /// When it waited last.
    waited: Option<Timestamp>,
}

/// By Machine uid.
#[derive(Debug, Default)]
pub(super) struct Limits {
    running: BTreeMap<String, Running>,
    /// The first moment at which one of them is due, with what it depends on besides; `None`: it is not known.
    first: Cell<Option<Due>>,
}

/// Since when all is calm, and what is due first then.
#[derive(Clone, Copy, Debug)]
struct Due {
    calm_since: Option<Timestamp>,
    at: Option<Timestamp>,
}

impl Check for Limits {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            self.first.take();
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
                    "the kubelet of machine {}, which may join until {until}, is refused: {}",
                    kubelet.machine, kubelet.message
                )
            });
        }
        let machine = context.applied("Machine")?;
        self.first.take();
        self.wait_for_turns(context.at(), context.world);
        let early = self.too_early(machine, context);
        match running(machine, context) {
            Some(running) => {
                let known = self
                    .running
                    .get(uid(machine))
                    .filter(|known| known.limit == running.limit);
                let since = known.map_or(running.since, |known| known.since);
                // Time that somebody takes from it cannot be over before.
                let shortened = known.is_some_and(|known| running.time < known.time);
                let since = if shortened {
                    since.max(began(context.at(), running.time))
                } else {
                    since
                };
                let waits = known.is_some_and(|known| known.waits);
                let waited = known.and_then(|known| known.waited);
                let running = Running {
                    since,
                    waits,
                    waited,
                    ..running
                };
                self.running.insert(uid(machine).to_owned(), running);
            }
            None => drop(self.running.remove(uid(machine))),
        }
        early
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let calm_since = rules.calm_since;
        if let Some(known) = self.first.get().filter(|known| known.calm_since == calm_since) {
            return known.at;
        }
        let running = self.running.values().filter_map(|running| running.due(rules));
        let at = running.min();
        self.first.set(Some(Due { calm_since, at }));
        at
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        // One that waits for its turn is looked at again when its turn may have come.
        self.first.take();
        self.wait_for_turns(now, world);
        let late = self
            .running
            .values()
            .find(|running| running.due(rules).is_some_and(|due| due <= now))?;
        let what = match late.limit {
            Limit::Creation => "has neither joined nor failed",
            Limit::Health => "is Unknown and not Failed",
            Limit::Drain => "is being deleted and its VM is still there",
        };
        Some(format!(
            "machine {} {what} since {}; the limit is {:?}",
            late.machine, late.since, late.time
        ))
    }
}

impl Running {
    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let timeouts = &rules.timeouts;
        let retry = match self.limit {
            // A call that failed may be repeated once more before anybody looks at the limit.
            Limit::Creation => timeouts.long_retry,
            Limit::Health => timeouts.short_retry + timeouts.slack / 2,
            Limit::Drain => timeouts.long_retry + Duration::from_mins(2),
        };
        let due = timeouts.deadline(self.since, self.time + timeouts.slack + retry);
        let grace = timeouts.medium_retry + timeouts.slack + retry;
        let due = self
            .waited
            .map_or(due, |waited| due.max(timeouts.deadline(waited, grace)));
        let calm = timeouts.deadline(rules.calm_since?, timeouts.slack + retry);
        Some(due.max(calm))
    }
}

impl Limits {
    /// The timeout of one that waits for its turn has as long left as it takes to see that the turn has come.
    fn wait_for_turns(&mut self, now: Timestamp, world: &WorldState) {
        for running in self.running.values_mut() {
            let waits = running.limit == Limit::Health && waits_for_turn(running, world);
            if waits || running.waits {
                running.since = running.since.max(began(now, running.time));
                running.waited = Some(now);
            }
            running.waits = waits;
        }
    }

    /// A phase that a timeout ends, before it is over.
    fn too_early(&self, machine: &Value, context: &CheckContext) -> Option<String> {
        let before = context
            .before
            .filter(|before| phase(before) != "Failed" && phase(machine) == "Failed")?;
        let known = self.running.get(uid(machine))?;
        let named_limit = match known.limit {
            Limit::Creation if text_of(machine).contains("using old node") => return None,
            Limit::Creation => "creation timeout",
            Limit::Health if phase(before) == "Unknown" => {
                if let Some(sibling) = joined_lately(before, known.time, context) {
                    return Some(format!(
                        "machine {} is Failed at {}, and its sibling {sibling}, for which it waited, has just joined",
                        name(machine),
                        context.at()
                    ));
                }
                "health timeout"
            }
            Limit::Health | Limit::Drain => return None,
        };
        // Times in a status are whole seconds.
        let earliest = after(known.since, known.time.saturating_sub(Duration::from_secs(1)));
        (context.at() < earliest).then(|| {
            format!(
                "machine {} is Failed at {}, before its {named_limit} of {:?} since {} is over",
                name(machine),
                context.at(),
                known.time,
                known.since
            )
        })
    }
}

/// When a time began that is over now.
fn began(now: Timestamp, time: Duration) -> Timestamp {
    let began = now.checked_sub(jiff::SignedDuration::try_from(time).unwrap_or_default());
    began.unwrap_or(now)
}

fn text_of(machine: &Value) -> &str {
    crate::object::text(machine, "/status/lastOperation/description")
}

/// What runs out for a Machine in its state; `None`: nothing.
fn running(machine: &Value, context: &CheckContext) -> Option<Running> {
    let timeouts = &context.rules.timeouts;
    let (limit, since, time) = if let Some(deleted) = time(machine, "/metadata/deletionTimestamp") {
        // What a person holds with finalizers of their own, or without ours, nobody can end.
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
                decided(machine, context),
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
        waits: false,
        waited: None,
    })
}

/// When it was found to be unhealthy: the write that says so may have been held up for as long as a pass may take, and names
/// the moment.
fn decided(machine: &Value, context: &CheckContext) -> Timestamp {
    let pass = jiff::SignedDuration::try_from(context.rules.pass()).unwrap_or_default();
    let earliest = context.at().checked_sub(pass).unwrap_or(context.at());
    let named = time(machine, "/status/currentStatus/lastUpdateTime");
    named.map_or(context.at(), |named| named.clamp(earliest, context.at()))
}

/// A sibling that joined after the machine's time was over, less than a medium retry period ago.
fn joined_lately<'a>(machine: &Value, timeout: Duration, context: &CheckContext<'a>) -> Option<&'a str> {
    let over = after(time(machine, "/status/currentStatus/lastUpdateTime")?, timeout);
    let deployment = label(machine, keys::DEPLOYMENT_LABEL);
    // Times in a status are whole seconds.
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

/// Whether a sibling is being replaced.
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
