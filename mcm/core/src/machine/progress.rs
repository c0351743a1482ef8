//! The progress of a deletion in the status.

use std::time::Duration;

use mcm_api::{MachineStatus, Operation, State};

use super::deletion_note::DeletionNote;
use super::last_step::StepText;
use super::pass::Pass;
use super::plan::Plan;
use super::reason::Reason;
use super::stage::Stage;
use crate::event::EventType;

/// Enters another stage, or records why the deletion stays in the current one.
pub(super) fn advance(pass: &Pass, state: State, text: StepText, wake: Duration) -> Plan {
    let memory = pass.machine().status.last_known_state.clone();
    advance_remembering(pass, state, text, wake, memory)
}

/// As [`advance`], with a new `lastKnownState` of the driver.
pub(super) fn advance_remembering(pass: &Pass, state: State, text: StepText, wake: Duration, memory: String) -> Plan {
    let status = MachineStatus {
        last_known_state: memory,
        ..pass.operation(Operation::Delete, state.clone(), text.clone())
    };
    let description = text.to_string();
    let plan = Plan::new(Reason::Stage(description.clone())).after(wake);
    match state {
        State::Failed => pass.report(plan, status, EventType::Warning, "DeletionBlocked", description),
        _ => pass.write(plan, status),
    }
}

/// Enters `stage` at once.
pub(super) fn next(pass: &Pass, stage: Stage, note: impl Into<Option<DeletionNote>>) -> Plan {
    advance(pass, State::Processing, StepText::deletion(stage, note), Duration::ZERO)
}
