//! How the status tells of a deletion's progress.

use std::time::Duration;

use mcm_api::{MachineStatus, Operation, State};

use super::pass::Pass;
use super::plan::Plan;
use super::reason::Reason;
use super::stage::Stage;
use crate::event::EventType;

/// Goes to another stage, or says why it stays in this one.
pub(super) fn advance(pass: &Pass, state: State, description: String, wake: Duration) -> Plan {
    let memory = pass.machine().status.last_known_state.clone();
    advance_remembering(pass, state, description, wake, memory)
}

/// As [`advance`], with another driver's memory.
pub(super) fn advance_remembering(
    pass: &Pass,
    state: State,
    description: String,
    wake: Duration,
    memory: String,
) -> Plan {
    let status = MachineStatus {
        last_known_state: memory,
        ..pass.operation(Operation::Delete, state.clone(), description.clone())
    };
    let plan = Plan::new(Reason::Stage(description.clone())).after(wake);
    match state {
        State::Failed => pass.report(plan, status, EventType::Warning, "DeletionBlocked", description),
        _ => pass.write(plan, status),
    }
}

/// Goes to `stage` at once, saying `text`.
pub(super) fn next(pass: &Pass, stage: Stage, text: &str) -> Plan {
    advance(pass, State::Processing, stage.describe(text), Duration::ZERO)
}
