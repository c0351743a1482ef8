//! A machine that is kept: how that begins, and what holds while it lasts.

use std::time::Duration;

use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage};

use super::super::pass::Pass;
use super::super::{Plan, Reason};
use super::marks::{Marks, condition, node_patch};
use super::{Facts, event, text, with_expiry};
use crate::event::EventType;

/// The machine is preserved from this write on.
pub(super) fn start(pass: &Pass, facts: &Facts) -> Plan {
    let mut status = pass.machine().status.clone();
    status.preservation = Some(facts.entering(pass, PreservationStage::Preserved));
    status.current_status.preserve_expiry_time = None;
    let status = with_expiry(pass, status);
    let text = text(&status);
    Plan {
        status: Some(status),
        ..Plan::new(Reason::Preservation(text.clone())).after(Duration::ZERO)
    }
    .act(event(EventType::Normal, "Preserved", text))
}

/// The pods have left, or were given up: the machine is preserved in its phase.
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

/// Whatever changed is put right; then the expiry is waited for.
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
    if let Some(record) = renamed(pass, facts) {
        let status = MachineStatus {
            preservation: Some(record),
            ..status.clone()
        };
        return Plan {
            status: Some(status),
            ..Plan::new(Reason::Preservation("another one asks for the preservation".to_owned())).after(Duration::ZERO)
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
        return plan;
    }
    Plan {
        actions,
        ..Plan::new(Reason::Preservation(text)).after(Duration::ZERO)
    }
}

/// The record, where another one asks for the preservation than before, or none was written.
fn renamed(pass: &Pass, facts: &Facts) -> Option<Preservation> {
    let wanted = facts.entering(pass, PreservationStage::Preserved);
    match &facts.record {
        None => Some(wanted),
        Some(known) => {
            let renamed = Preservation {
                by: wanted.by,
                request: wanted.request,
                node_uid: wanted.node_uid,
                ..known.clone()
            };
            Some(renamed).filter(|renamed| renamed != known)
        }
    }
}
