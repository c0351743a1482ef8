//! The status of a health check: numbers, machines with reasons and times, and its conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::MachineHealthCheck;
use mcm_api::health_check::{MachineHealthCheckStatus, UnhealthyMachine};

use super::conditions;
use super::evaluate::Health;
use super::judged::Judged;

/// A number as the API has it.
pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A time in whole seconds.
pub(super) fn stamp(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// The status as it is built during a pass.
pub(super) struct Draft<'a> {
    check: &'a MachineHealthCheck,
    now: Time,
    pub status: MachineHealthCheckStatus,
}

impl<'a> Draft<'a> {
    pub fn new(check: &'a MachineHealthCheck, now: Timestamp) -> Self {
        Self {
            check,
            now: stamp(now),
            status: check.status.clone(),
        }
    }

    /// The check as it was read.
    pub fn check(&self) -> &'a MachineHealthCheck {
        self.check
    }

    /// Sets a condition; returns whether its status, reason or message changed.
    pub fn condition(&mut self, type_: &str, status: bool, reason: &str, message: &str) -> bool {
        let before = conditions::find(&self.status.conditions, type_).cloned();
        let generation = self.check.metadata.generation;
        conditions::set(
            &mut self.status.conditions,
            (type_, status, reason, message),
            generation,
            &self.now,
        );
        let after = conditions::find(&self.status.conditions, type_);
        let essence = |one: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            (one.status.clone(), one.reason.clone(), one.message.clone())
        };
        before.as_ref().map(essence) != after.map(essence)
    }

    /// Lists the machines that are not healthy, with those first for which the check acts first.
    pub fn list(&mut self, judged: &[Judged]) {
        let mut names: Vec<String> = judged.iter().map(|one| one.target.name().to_owned()).collect();
        names.sort();
        names.truncate(MachineHealthCheckStatus::MAX_TARGETS);
        if defect!(StatusNeverRests) {
            // An order that differs from pass to pass.
            let by = usize::try_from(self.now.0.as_second()).unwrap_or_default() % names.len().max(1);
            names.rotate_left(by);
        }
        self.status.targets = names;
        let mut entries: Vec<(bool, UnhealthyMachine)> = judged.iter().filter_map(|one| self.entry(one)).collect();
        entries.sort_by(|(pending, one), (other_pending, other)| {
            (pending, &one.machine).cmp(&(other_pending, &other.machine))
        });
        entries.truncate(MachineHealthCheckStatus::MAX_UNHEALTHY);
        self.status.unhealthy = entries.into_iter().map(|(_, entry)| entry).collect();
    }

    /// Whether the machine is only pending, and its entry; `None`: it is healthy.
    fn entry(&self, judged: &Judged) -> Option<(bool, UnhealthyMachine)> {
        let machine = judged.target.name();
        let (pending, reason, since, message) = match &judged.health {
            Health::Healthy if judged.text.is_empty() => return None,
            Health::Healthy => (true, "Recovered", None, "the machine is healthy".to_owned()),
            Health::Pending { since, message, .. } => (true, "Pending", *since, message.clone()),
            Health::NotCounted => {
                let deleting = judged.target.machine.metadata.deletion_timestamp.as_ref();
                let text = if deleting.is_some() {
                    "the machine is being deleted"
                } else {
                    "the Node has not joined, and no timeout is set"
                };
                (true, "NotEvaluated", deleting.map(|time| time.0), text.to_owned())
            }
            Health::Unhealthy { reason, since, message } => (false, *reason, *since, one_line(message)),
        };
        let message = match judged.text.as_str() {
            "" => message,
            text => format!("{message}; {text}"),
        };
        let entry = UnhealthyMachine {
            machine: machine.to_owned(),
            reason: reason.to_owned(),
            message,
            since: since.map(stamp).or_else(|| Some(self.known_since(machine, reason))),
            next_check: judged.next.map(stamp),
        };
        Some((pending, entry))
    }

    /// Since when the last status lists the machine with that reason, or now.
    fn known_since(&self, machine: &str, reason: &str) -> Time {
        let mut known = self.check.status.unhealthy.iter();
        let known = known.find(|entry| entry.machine == machine && entry.reason == reason);
        known
            .and_then(|entry| entry.since.clone())
            .unwrap_or_else(|| self.now.clone())
    }

    /// The status, if it differs from the last one.
    pub fn changed(self) -> Option<MachineHealthCheckStatus> {
        (self.status != self.check.status).then_some(self.status)
    }
}

/// The message of a condition, whose lines are for `kubectl describe machine`, as one line.
fn one_line(message: &str) -> String {
    message.replace("\n  * ", " ")
}
