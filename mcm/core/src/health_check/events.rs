//! The events of health checks.

use mcm_api::MachineHealthCheck;

use super::conditions::{EVALUATED, find};
use super::outcome::{Action, EventObject};
use crate::event::EventType;

/// A warning about the check.
pub(super) fn warning(reason: &'static str, message: String) -> Action {
    Action::RecordEvent {
        object: EventObject::Check,
        type_: EventType::Warning,
        reason,
        message,
    }
}

/// The check marks a machine as unhealthy.
pub(super) fn marked(machine: &str, check: &MachineHealthCheck, reason: &str) -> Action {
    let namespace = check.metadata.namespace.as_deref().unwrap_or_default();
    let name = check.metadata.name.as_deref().unwrap_or_default();
    Action::RecordEvent {
        object: EventObject::Machine(machine.to_owned()),
        type_: EventType::Normal,
        reason: "MachineMarkedUnhealthy",
        message: format!("Machine {namespace}/{machine} has been marked as unhealthy by {namespace}/{name}: {reason}"),
    }
}

/// The unhealthy machine is not replaced, because it has no owner.
pub(super) fn without_owner(machine: &str) -> Action {
    Action::RecordEvent {
        object: EventObject::Machine(machine.to_owned()),
        type_: EventType::Warning,
        reason: "NoOwner",
        message: "The machine is unhealthy and no MachineSet controls it, so it is not replaced".to_owned(),
    }
}

/// A warning about a cluster name, in the first pass over a check; `None`: it was recorded before, or there is no name.
pub(super) fn ignored_cluster_name(check: &MachineHealthCheck) -> Option<Action> {
    let name = check.spec.cluster_name.as_str();
    let is_first = find(&check.status.conditions, EVALUATED).is_none();
    (is_first && !name.is_empty()).then(|| {
        let message = format!(
            "spec.clusterName {name:?} is ignored: the check selects machines of its namespace by their labels; remove the field"
        );
        warning("ClusterNameIgnored", message)
    })
}
