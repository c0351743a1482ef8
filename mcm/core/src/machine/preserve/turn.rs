//! Failure and recovery of a machine: preservation changes the status write that records them.

use std::time::Duration;

use mcm_api::{MachineStatus, Preservation, PreservationStage, PreservedBy};

use super::super::pass::Pass;
use super::super::{Action, Metric, Plan, Reason};
use super::{Facts, RELAPSE, event, known_admission, text, with_expiry};
use crate::event::EventType;
use crate::preservation::{
    Admission, Expiry, Failure, Origin, PreservationProgress, Release, Step, on_failure, on_recovery, refusal,
    started_late,
};

/// Changes `plan`, which sets the phase Failed: with this write the machine is protected, or it will be replaced.
pub(super) fn failing(pass: &Pass, facts: &Facts, plan: Plan) -> Plan {
    let reduced = defect!(NodeRequestUnknownAtFailure).then(|| facts.without_node_request());
    let facts = reduced.as_ref().unwrap_or(facts);
    // If the decision does not depend on the owner's list, the list is not asked.
    let settled = on_failure(&facts.now, Admission::NoList);
    let (verdict, requested, admission) = match settled {
        Failure::Release(_) => (settled, true, Admission::NoList),
        Failure::Replace if !facts.now.vm || on_failure(&facts.now, Admission::Open) == Failure::Replace => {
            (settled, false, Admission::NoList)
        }
        _ => {
            let requested = settled == Failure::KeepRequested;
            match known_admission(pass, requested) {
                Some(admission) => (on_failure(&facts.now, admission), requested, admission),
                None => return claim(facts, requested),
            }
        }
    };
    match verdict {
        Failure::Replace => replaced(pass, facts, plan, admission),
        Failure::Release(why) => released(pass, facts, plan, why),
        Failure::Keep | Failure::KeepRequested => draining(pass, facts, plan, requested),
    }
}

/// Explains on the machine why it is not preserved, if that is requested.
fn replaced(pass: &Pass, facts: &Facts, mut plan: Plan, admission: Admission) -> Plan {
    let Some(why) = refusal(&facts.now, admission, pass.view.owners_list.maximum()) else {
        return plan;
    };
    let text = format!("It is not preserved: {why}.");
    let requested = facts.resolved.request.preservation().is_some();
    let operation = plan.status.as_mut().and_then(|status| status.last_operation.as_mut());
    if let Some(operation) = operation.filter(|_| requested) {
        operation.description = format!("{} {text}", operation.description);
    }
    let type_ = if requested {
        EventType::Warning
    } else {
        EventType::Normal
    };
    let message = format!("{} failed and is replaced. {text}", pass.name());
    // A Node that cannot be written does not delay the replacement.
    let condition = super::marks::refused(pass, why).filter(|_| pass.view.failure.is_none());
    plan.actions.extend(condition);
    plan.act(Action::Observe(Metric::PreservationRefused(why)))
        .act(event(type_, "PreservationRefused", message))
}

/// A machine that failed before its preservation was requested, or before another controller could preserve it; `None`:
/// it is not preserved.
pub(super) fn start_failed(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let requested = !facts.now.adopted;
    let admission = match known_admission(pass, requested) {
        Some(admission) => admission,
        None if started_late(&facts.now, Admission::Open) == Step::StartFailed => return Some(claim(facts, requested)),
        None => Admission::NoList,
    };
    match started_late(&facts.now, admission) {
        Step::StartFailed => {
            let plan = Plan {
                status: Some(pass.machine().status.clone()),
                ..Plan::new(Reason::Preservation("the failed machine is preserved".to_owned()))
            };
            Some(draining(pass, facts, plan, requested))
        }
        Step::Finish => Some(super::finish::finish(pass, facts)),
        _ => None,
    }
}

/// Claims a place in the owner's list, before the status is written.
fn claim(facts: &Facts, requested: bool) -> Plan {
    let by = if requested { facts.by() } else { PreservedBy::Auto };
    let text = "the owner's list is asked whether the machine may be preserved".to_owned();
    Plan::new(Reason::Preservation(text)).act(Action::Claim { by, again: requested })
}

fn draining(pass: &Pass, facts: &Facts, plan: Plan, requested: bool) -> Plan {
    let mut record = facts.entering(pass, PreservationStage::Draining);
    if !requested {
        record.by = PreservedBy::Auto;
    }
    // The expiry of a preservation that was ending does not apply to this one.
    let relapse = facts.now.expiry != Expiry::None && facts.now.progress != PreservationProgress::Releasing;
    if relapse {
        record.reason = RELAPSE.to_owned();
    }
    let message = format!(
        "{} failed and is preserved ({}): it is drained first",
        pass.name(),
        record.by
    );
    let started = Metric::PreservationStarted(record.by.clone());
    let mut plan = with_record(plan, Some(record)).after(Duration::ZERO);
    plan.drain = pass.view.drain.reset();
    if defect!(NodeRequestDoesNotWake) && facts.resolved.origin == Origin::Node {
        plan = plan.after(pass.settings.retry.long);
    }
    if let Some(status) = plan.status.as_mut().filter(|_| !relapse) {
        status.current_status.preserve_expiry_time = None;
    }
    let started = (!relapse).then_some(Action::Observe(started));
    plan.actions.extend(started);
    plan.act(event(EventType::Normal, "PreservationStarted", message))
}

fn released(pass: &Pass, facts: &Facts, plan: Plan, why: Release) -> Plan {
    let record = Preservation {
        reason: why.reason().to_owned(),
        ..facts.entering(pass, PreservationStage::Releasing)
    };
    let message = format!("the preservation of {} ends: {why}", pass.name());
    let status = plan.status.map(|status| super::finish::ended(pass, status, record));
    Plan { status, ..plan }
        .after(Duration::ZERO)
        .act(Action::Observe(Metric::PreservationEnded(why)))
        .act(event(EventType::Normal, "PreservationEnded", message))
}

/// Changes `plan`, which sets the phase Running again.
pub(super) fn recovering(pass: &Pass, facts: &Facts, plan: Plan) -> Plan {
    match on_recovery(&facts.now) {
        Err(None) => plan,
        Err(Some(why)) => released(pass, facts, plan, why),
        Ok(()) => {
            let record = facts.entering(pass, PreservationStage::Preserved);
            let mut plan = with_record(plan, Some(record));
            plan.status = plan.status.map(|status| with_expiry(pass, status));
            let until = plan.status.as_ref().map(text).unwrap_or_default();
            let message = format!("{} recovered and stays preserved. {until}", pass.name());
            plan.after(Duration::ZERO)
                .act(event(EventType::Normal, "PreservedMachineRecovered", message))
        }
    }
}

fn with_record(plan: Plan, record: Option<Preservation>) -> Plan {
    let status = plan.status.map(|status| MachineStatus {
        preservation: record,
        ..status
    });
    Plan { status, ..plan }
}
