//! The start of a preservation, and the marks that it maintains.

use std::time::Duration;

use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage};

use super::super::pass::Pass;
use super::super::{Action, Metric, Plan, Reason};
use super::marks::{Marks, condition, node_patch};
use super::{Facts, event, fence, text, with_expiry};
use crate::event::EventType;

/// Starts the preservation of a machine that has not failed.
pub(super) fn start(pass: &Pass, facts: &Facts) -> Plan {
    let mut status = pass.machine().status.clone();
    let record = facts.entering(pass, PreservationStage::Preserved);
    let started = Metric::PreservationStarted(record.by.clone());
    status.preservation = Some(record);
    status.current_status.preserve_expiry_time = None;
    let status = with_expiry(pass, status);
    let text = text(&status);
    Plan {
        status: Some(status),
        ..Plan::new(Reason::Preservation(text.clone())).after(Duration::ZERO)
    }
    .act(Action::Observe(started))
    .act(event(EventType::Normal, "Preserved", text))
}

/// Ends the drain: the machine is preserved in its phase.
pub(super) fn settle(pass: &Pass, facts: &Facts, drained: Option<&str>) -> Plan {
    let mut status = pass.machine().status.clone();
    status.preservation = Some(facts.entering(pass, PreservationStage::Preserved));
    let status = with_expiry(pass, status);
    let text = text(&status);
    let message = match drained {
        Some(drained) => format!("{drained} {text}"),
        None => text,
    };
    let mut plan = Plan::new(Reason::Preservation(message.clone())).after(Duration::ZERO);
    plan.actions.extend(condition(pass, facts, true, &message));
    plan.status = Some(status);
    plan.act(event(EventType::Normal, "Preserved", message))
}

/// Restores the marks of the preservation, and waits for the expiry.
pub(super) fn keep(pass: &Pass, facts: &Facts) -> Plan {
    let status = &pass.machine().status;
    let left = status.current_status.preserve_expiry_time.as_ref().map(|ends| {
        let left = ends.0.duration_since(pass.now);
        Duration::try_from(left).unwrap_or_default()
    });
    let left = if defect!(ExpiryDoesNotWake) {
        Some(pass.settings.retry.long)
    } else {
        left
    };
    let plan = Plan::new(Reason::Nothing).after(left.unwrap_or_default());
    if let Some(record) = changed_record(pass, facts) {
        let status = MachineStatus {
            preservation: Some(record),
            ..status.clone()
        };
        return Plan {
            status: Some(status),
            ..Plan::new(Reason::Preservation(
                "the request for the preservation changed".to_owned(),
            ))
            .after(Duration::ZERO)
        };
    }
    let marks = if pass.phase() == Some(&Phase::Failed) {
        Marks::Failed
    } else {
        Marks::Serving
    };
    let text = text(status);
    let mut actions: Vec<_> = node_patch(pass, marks, false).into_iter().collect();
    actions.extend(super::marks::machine_patch(pass, facts, true));
    actions.extend(condition(pass, facts, true, &text));
    if actions.is_empty() {
        return fence::decide(pass, facts).unwrap_or(plan);
    }
    Plan {
        actions,
        ..Plan::new(Reason::Preservation(text)).after(Duration::ZERO)
    }
}

/// The new record, if the requester of the preservation changed or there is no record.
fn changed_record(pass: &Pass, facts: &Facts) -> Option<Preservation> {
    let wanted = facts.entering(pass, PreservationStage::Preserved);
    match &facts.record {
        None => Some(wanted),
        Some(known) => {
            let changed = Preservation {
                by: wanted.by,
                request: wanted.request,
                node_uid: wanted.node_uid,
                ..known.clone()
            };
            Some(changed).filter(|changed| changed != known)
        }
    }
}
