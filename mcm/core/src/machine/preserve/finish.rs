//! The end of a preservation: first the status records it, then the marks on Node and Machine are removed, finally the
//! record is removed.
//!
//! Every step depends only on the observed state, so that any process can continue.

use std::time::Duration;

use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage};

use super::super::pass::Pass;
use super::super::{Action, Metric, Plan, Reason};
use super::marks::{Marks, condition, machine_patch, node_patch};
use super::{Facts, event, is_standalone};
use crate::event::EventType;
use crate::preservation::{PreservationProgress, Release};

/// The first write.
pub(super) fn release(pass: &Pass, facts: &Facts, why: Release) -> Plan {
    let record = Preservation {
        reason: why.reason().to_owned(),
        by: facts.now.by.clone().unwrap_or_else(|| facts.by()),
        ..facts.entering(pass, PreservationStage::Releasing)
    };
    let status = ended(pass, pass.machine().status.clone(), record);
    let when = match facts.now.progress {
        PreservationProgress::Draining => " while its node is drained",
        _ => "",
    };
    let message = format!("the preservation of {} ends{when}: {why}", pass.name());
    Plan {
        status: Some(status),
        ..Plan::new(Reason::Preservation(message.clone())).after(Duration::ZERO)
    }
    .act(Action::Observe(Metric::PreservationEnded(why)))
    .act(event(EventType::Normal, "PreservationEnded", message))
}

/// The preservation of a machine that is deleted ends when it becomes Terminating.
pub(super) fn deleted(pass: &Pass, plan: Plan) -> Plan {
    let terminating = |phase: Option<&Phase>| phase == Some(&Phase::Terminating);
    let enters = plan
        .status
        .as_ref()
        .is_some_and(|status| terminating(status.current_status.phase.as_ref()));
    if !enters || terminating(pass.phase()) || !pass.machine().status.is_preserved() {
        return plan;
    }
    plan.act(Action::Observe(Metric::PreservationEnded(Release::Deleted)))
}

/// The status with the record of an end. If the expiry was removed, it is set to the current time: with an expiry no
/// new preservation begins before the end of this one.
pub(super) fn ended(pass: &Pass, mut status: MachineStatus, record: Preservation) -> MachineStatus {
    if record.reason == Release::ExpiryRemoved.reason() {
        status.current_status.preserve_expiry_time = Some(pass.stamp());
    }
    status.preservation = Some(record);
    status
}

/// The next step of the cleanup.
pub(super) fn finish(pass: &Pass, facts: &Facts) -> Plan {
    let reason = facts
        .record
        .as_ref()
        .map(|record| record.reason.as_str())
        .unwrap_or_default();
    let message = if reason.is_empty() {
        String::new()
    } else {
        format!("The preservation ended: {reason}.")
    };
    let mut actions: Vec<Action> = condition(pass, facts, false, &message).into_iter().collect();
    if actions.is_empty() {
        // After the condition is written, the Node is observed again, as it may have changed before.
        actions.extend(node_patch(pass, Marks::None, facts.now.expired_before));
        actions.extend(machine_patch(pass, facts, false));
    }
    let reason = || Reason::Preservation("the marks of the preservation are removed".to_owned());
    if !actions.is_empty() {
        return Plan {
            actions,
            ..Plan::new(reason()).after(Duration::ZERO)
        };
    }
    over(pass, facts)
        .or_else(|| delete_standalone(pass))
        .unwrap_or_else(|| Plan::new(Reason::Nothing))
}

/// Deletes a failed machine that has no set to replace it; `None`: the machine is not failed or has a set.
pub(super) fn delete_standalone(pass: &Pass) -> Option<Plan> {
    let failed = pass.phase() == Some(&Phase::Failed);
    (failed && is_standalone(pass)).then(|| {
        let text = "the machine failed, and its preservation is over: it is deleted".to_owned();
        Plan::new(Reason::Preservation(text))
            .act(Action::DeleteMachine)
            .after(pass.settings.retry.short)
    })
}

/// The last write; `None`: nothing to write.
pub(super) fn over(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let known = &pass.machine().status;
    let mut status = known.clone();
    status.current_status.preserve_expiry_time = None;
    match &mut status.preservation {
        _ if pass.phase() != Some(&Phase::Failed) => status.preservation = None,
        // Any later request is for a new preservation.
        Some(record) if facts.resolved.request.preservation().is_none() => record.request.clear(),
        _ => {}
    }
    let plan = Plan::new(Reason::Preservation("the preservation is over".to_owned())).after(Duration::ZERO);
    (status != *known).then_some(Plan {
        status: Some(status),
        ..plan
    })
}
