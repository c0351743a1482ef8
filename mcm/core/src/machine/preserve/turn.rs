//! A machine that fails, and one that recovers: preservation joins the status write that says so.

use std::time::Duration;

use mcm_api::{MachineStatus, Preservation, PreservationStage, PreservedBy};

use super::super::pass::Pass;
use super::super::{Action, Plan, Reason};
use super::{Facts, RELAPSE, event, known_gate, text, with_expiry};
use crate::event::EventType;
use crate::preservation::{Expiry, Failure, Gate, Origin, Release, Step, Track, on_failure, on_recovery, started_late};

/// `plan`, which says that the machine is Failed: from this write on it is protected, or it is replaced.
pub(super) fn failing(pass: &Pass, facts: &Facts, plan: Plan) -> Plan {
    let deaf = defect!(NodeRequestUnknownAtFailure).then(|| facts.deaf_to_the_node());
    let facts = deaf.as_ref().unwrap_or(facts);
    // What is decided whatever the list says needs no question to it.
    let settled = on_failure(&facts.now, Gate::Nobody);
    let (verdict, asked) = match settled {
        Failure::Release(_) => (settled, true),
        Failure::Replace if !facts.now.vm || on_failure(&facts.now, Gate::Open) == Failure::Replace => (settled, false),
        _ => {
            let asked = settled == Failure::KeepAsked;
            match known_gate(pass, asked) {
                Some(gate) => (on_failure(&facts.now, gate), asked),
                None => return claim(facts, asked),
            }
        }
    };
    match verdict {
        Failure::Replace => plan,
        Failure::Release(why) => released(pass, facts, plan, why),
        Failure::Keep | Failure::KeepAsked => draining(pass, facts, plan, asked),
    }
}

/// A machine that has failed before it was asked for, or before another controller could keep it: `None`: nothing comes
/// of it.
pub(super) fn start_failed(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let asked = !facts.now.adopted;
    let gate = match known_gate(pass, asked) {
        Some(gate) => gate,
        None if started_late(&facts.now, Gate::Open) == Step::StartFailed => return Some(claim(facts, asked)),
        None => Gate::Nobody,
    };
    match started_late(&facts.now, gate) {
        Step::StartFailed => {
            let plan = Plan {
                status: Some(pass.machine().status.clone()),
                ..Plan::new(Reason::Preservation("the failed machine is kept after all".to_owned()))
            };
            Some(draining(pass, facts, plan, asked))
        }
        Step::Finish => Some(super::finish::finish(pass, facts)),
        _ => None,
    }
}

/// The owner's list comes before the status.
fn claim(facts: &Facts, asked: bool) -> Plan {
    let by = if asked { facts.by() } else { PreservedBy::Auto };
    let text = "the list of the machine's owner is asked whether it may be kept".to_owned();
    Plan::new(Reason::Preservation(text)).act(Action::Claim { by, again: asked })
}

fn draining(pass: &Pass, facts: &Facts, plan: Plan, asked: bool) -> Plan {
    let mut record = facts.entering(pass, PreservationStage::Draining);
    if !asked {
        record.by = PreservedBy::Auto;
    }
    // The expiry of one that was ending has nothing to say of this one.
    let relapse = facts.now.expiry != Expiry::None && facts.now.track != Track::Releasing;
    if relapse {
        record.reason = RELAPSE.to_owned();
    }
    let message = format!(
        "{} failed and is preserved ({}): its pods leave first",
        pass.name(),
        record.by
    );
    let mut plan = with_record(plan, Some(record)).after(Duration::ZERO);
    plan.drain = pass.view.drain.begun_anew();
    if defect!(NodeRequestDoesNotWake) && facts.resolved.origin == Origin::Node {
        plan = plan.after(pass.settings.retry.long);
    }
    if let Some(status) = plan.status.as_mut().filter(|_| !relapse) {
        status.current_status.preserve_expiry_time = None;
    }
    plan.act(event(EventType::Normal, "PreservationStarted", message))
}

fn released(pass: &Pass, facts: &Facts, plan: Plan, why: Release) -> Plan {
    let record = Preservation {
        reason: why.word().to_owned(),
        ..facts.entering(pass, PreservationStage::Releasing)
    };
    let message = format!("the preservation of {} ends: {why}", pass.name());
    let status = plan.status.map(|status| super::finish::ended(pass, status, record));
    Plan { status, ..plan }
        .after(Duration::ZERO)
        .act(event(EventType::Normal, "PreservationEnded", message))
}

/// `plan`, which says that the machine is Running again.
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
