//! The conditions that a health check writes: on machines, and in its own status.

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use mcm_api::{Machine, keys};

/// Whether remediation is permitted.
pub(super) const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
/// Whether the machines could be evaluated.
pub(super) const EVALUATED: &str = "Evaluated";
/// Whether the check is paused.
pub(super) const PAUSED: &str = "Paused";

/// The conditions of a machine, as a pass changes them.
#[derive(Debug)]
pub(super) struct MachineConditions {
    before: Vec<NodeCondition>,
    after: Vec<NodeCondition>,
    now: Time,
}

impl MachineConditions {
    pub fn of(machine: &Machine, now: Time) -> Self {
        Self {
            before: machine.status.conditions.clone(),
            after: machine.status.conditions.clone(),
            now,
        }
    }

    /// The status of a condition; `None`: there is none.
    pub fn status(&self, type_: &str) -> Option<&str> {
        let found = self.after.iter().find(|condition| condition.type_ == type_);
        found.map(|condition| condition.status.as_str())
    }

    pub fn set(&mut self, type_: &str, status: bool, reason: &str, message: &str) {
        set_condition(&mut self.after, type_, status, reason, message, &self.now);
    }

    pub fn remove(&mut self, type_: &str) {
        self.after.retain(|condition| condition.type_ != type_);
    }

    /// All conditions of the machine, if they have changed.
    pub fn changed(self) -> Option<Vec<NodeCondition>> {
        (self.before != self.after).then_some(self.after)
    }
}

/// Sets a condition of a machine. The time of its transition changes only with its status.
pub(crate) fn set_condition(
    conditions: &mut Vec<NodeCondition>,
    type_: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: &Time,
) {
    let status = if status { "True" } else { "False" };
    let known = conditions.iter().position(|condition| condition.type_ == type_);
    let same = known.and_then(|index| conditions.get(index).filter(|condition| condition.status == status));
    let transition = same.and_then(|condition| condition.last_transition_time.clone());
    let condition = NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(transition.unwrap_or_else(|| now.clone())),
        last_heartbeat_time: None,
    };
    match known.and_then(|index| conditions.get_mut(index)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// Whether a check requests that the owner replaces the machine, and the owner has not reported completion.
pub(super) fn is_with_owner(machine: &Machine) -> bool {
    let condition = machine.status.condition(keys::OWNER_REMEDIATED);
    condition.is_some_and(|condition| condition.status == "False")
}

/// Sets a condition in the status of a check.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    (type_, status, reason, message): (&str, bool, &str, &str),
    generation: Option<i64>,
    now: &Time,
) {
    let status = if status { "True" } else { "False" };
    let known = conditions.iter().position(|condition| condition.type_ == type_);
    let same = known.and_then(|index| conditions.get(index).filter(|condition| condition.status == status));
    let transition = same.map(|condition| condition.last_transition_time.clone());
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: transition.unwrap_or_else(|| now.clone()),
    };
    match known.and_then(|index| conditions.get_mut(index)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// The condition of that type.
pub(super) fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}
