//! Problems of a machine: how its status reports them, and when they are checked again.

use std::time::Duration;

use mcm_api::{MachineStatus, Operation, Phase, State};

use super::pass::Pass;
use super::plan::Plan;
use super::reason::Reason;
use crate::event::EventType;

/// The plan for a problem that needs a user's action: the status reports it, and it is checked again later.
pub(super) fn problem(pass: &Pass, reason: Reason, operation: Operation) -> Plan {
    let description = reason.to_string();
    let wake = match reason {
        Reason::ClassWithoutFinalizer(_) => return Plan::new(reason).after(pass.settings.retry.short),
        Reason::InvalidSecret(_) => pass.settings.retry.short,
        _ => pass.settings.retry.long,
    };
    let creating = pass.is_being_created();
    let creating = creating && pass.machine().metadata.deletion_timestamp.is_none();
    let wake = if creating { before_timeout(pass, wake) } else { wake };
    let known = pass.last_step().and_then(|step| step.operation.clone());
    let status = pass.operation(known.unwrap_or(operation), State::Failed, description.clone());
    pass.report(
        Plan::new(reason).after(wake),
        timed_out(pass, status),
        EventType::Warning,
        "Invalid",
        description,
    )
}

/// A machine without a VM at the end of its creation timeout is Failed, whatever the cause.
fn timed_out(pass: &Pass, status: MachineStatus) -> MachineStatus {
    let creating = pass.is_being_created();
    let late = pass.age() >= pass.settings.creation_timeout_of(pass.machine());
    if creating && late && pass.machine().metadata.deletion_timestamp.is_none() {
        return pass.enter(status, Phase::Failed, false);
    }
    status
}

/// `wait`, or the rest of the creation timeout if that is shorter.
pub(super) fn before_timeout(pass: &Pass, wait: Duration) -> Duration {
    let timeout = pass.settings.creation_timeout_of(pass.machine());
    let left = timeout.saturating_sub(pass.age());
    if left.is_zero() || defect!(CreationTimeoutAtRetryOnly) {
        return wait;
    }
    wait.min(left)
}
