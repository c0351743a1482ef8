//! Hot update: the provider spec of an existing class changed, and the VMs of its machines are updated.
//!
//! A change that needs new VMs comes with a new class; so every change of an existing class can be applied to running
//! VMs. An annotation on the machine has the spec of its VM. Before the driver is called, the last operation records
//! the update: until it succeeds, the VM may have parts of any spec that was tried, and it is updated also if the class
//! returns to the spec of the annotation.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use mcm_api::{Code, DriverError, Operation, Phase, State, keys};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::creation::retry_of;
use super::last_step::{LastStep, StepText};
use super::pass::Pass;
use super::{Action, Answer, CallKind, CloudCall, MachinePatch, Plan, Reason, validation};
use crate::event::EventType;

/// The next step of an update of the machine's VM; `None`: it needs none.
pub(super) fn decide(pass: &Pass) -> Option<Plan> {
    let machine = pass.machine();
    let settled = !matches!(
        pass.phase(),
        None | Some(Phase::CrashLoopBackOff | Phase::Failed | Phase::Terminating)
    );
    if machine.spec.provider_id.is_empty() || !settled {
        return None;
    }
    let class = validation::class(pass)
        .ok()
        .filter(|class| !class.provider_spec.is_null())?;
    if let Some(Answer::Update { spec, result }) = pass.last_answer() {
        return Some(match result {
            Ok(()) => updated(pass, spec),
            Err(error) => failed(pass, spec, error),
        });
    }
    let applied = last_applied(pass);
    let same = applied.as_ref() == Some(&class.provider_spec);
    let spec = class.provider_spec.to_string();
    let pending = is_pending(pass);
    if same && !pending || is_refused(pass, &spec) {
        return None;
    }
    if applied.is_none() && !pending && pass.view.cannot_update {
        return None;
    }
    if let Some(left) = left_to_repeat(pass) {
        return Some(Plan::new(Reason::WaitingToRepeat(left)).after(left));
    }
    if applied.is_some() && !pending {
        let status = pass.operation(Operation::Update, State::Processing, StepText::UpdatingVm);
        let plan = Plan::new(Reason::UpdateBegun).after(Duration::ZERO);
        return Some(Plan {
            status: Some(status),
            ..plan
        });
    }
    let call = CloudCall {
        kind: CallKind::Update,
        last_applied: applied.map(|applied| applied.to_string()),
        machine: machine.clone(),
        class: class.clone(),
        secret: pass.view.secret.data.clone(),
    };
    Some(Plan::new(Reason::UpdateVm).act(Action::Call(Box::new(call))))
}

/// If `plan` overwrites the last operation of an unfinished update, an annotation records the update first.
pub(super) fn mark_in_flight(pass: &Pass, mut plan: Plan) -> Plan {
    let overwritten = plan.status.as_ref().is_some_and(|status| {
        let operation = status.last_operation.as_ref();
        operation.is_some_and(|operation| operation.operation != Some(Operation::Update))
    });
    let refused = pending_step(pass).is_some_and(|step| step.code == Some(Code::Unimplemented));
    if !overwritten
        || refused
        || annotation(pass, keys::INFLIGHT_PROVIDER_SPEC_ANNOTATION).is_some()
        || !is_pending(pass)
    {
        return plan;
    }
    let spec = pass.view.class.as_ref().map(|class| class.provider_spec.to_string());
    let patch = MachinePatch {
        annotations: inflight(Some(hash(&spec.unwrap_or_default()))),
        ..MachinePatch::default()
    };
    plan.actions.insert(0, Action::PatchMachine(patch));
    plan
}

/// The annotation that marks a VM that may have parts of another spec; `None` removes it.
fn inflight(hash: Option<String>) -> BTreeMap<String, Option<String>> {
    BTreeMap::from([(keys::INFLIGHT_PROVIDER_SPEC_ANNOTATION.to_owned(), hash)])
}

fn updated(pass: &Pass, spec: &str) -> Plan {
    let is_marked = annotation(pass, keys::INFLIGHT_PROVIDER_SPEC_ANNOTATION).is_some();
    let patch = MachinePatch {
        provider_spec: Some(spec.to_owned()),
        annotations: if is_marked { inflight(None) } else { BTreeMap::new() },
        ..MachinePatch::default()
    };
    let mut plan = Plan::new(Reason::VmUpdated)
        .act(Action::PatchMachine(patch))
        .after(Duration::ZERO);
    if pending_step(pass).is_some() {
        plan.status = Some(pass.operation(Operation::Update, State::Successful, StepText::VmUpdated));
        plan = plan.act(Action::RecordEvent {
            type_: EventType::Normal,
            reason: "VMUpdated".to_owned(),
            message: StepText::VmUpdated.to_string(),
        });
    }
    plan
}

fn failed(pass: &Pass, spec: &str, error: &DriverError) -> Plan {
    let code = error.code;
    let retry = retry_of(pass.settings, code);
    let reason = Reason::UpdateFailed { code, retry };
    let (text, wake) = match code {
        Code::Unimplemented if last_applied(pass).is_none() && !is_pending(pass) => {
            return Plan::new(reason).after(pass.settings.retry.long);
        }
        Code::Unimplemented => (StepText::UpdateRefused { spec: hash(spec) }, pass.settings.retry.long),
        _ => {
            let error = error.to_string();
            (StepText::CallFailed { error }, retry)
        }
    };
    let description = text.to_string();
    let mut status = pass.operation(Operation::Update, State::Failed, text);
    if let Some(operation) = &mut status.last_operation {
        operation.error_code = code.name().to_owned();
    }
    pass.report(
        Plan::new(reason).after(wake),
        status,
        EventType::Warning,
        "UpdateFailed",
        description,
    )
}

/// Whether the driver has reported that it cannot apply this spec.
fn is_refused(pass: &Pass, spec: &str) -> bool {
    pending_step(pass)
        .is_some_and(|step| matches!(&step.text, StepText::UpdateRefused { spec: refused } if *refused == hash(spec)))
}

/// The last operation, if it is an update that has not succeeded.
fn pending_step<'a>(pass: &'a Pass) -> Option<&'a LastStep> {
    pass.last_step()
        .filter(|step| step.operation == Some(Operation::Update) && step.state != Some(State::Successful))
}

/// Whether the VM may have parts of a spec other than the one that was applied last.
fn is_pending(pass: &Pass) -> bool {
    pending_step(pass).is_some() || annotation(pass, keys::INFLIGHT_PROVIDER_SPEC_ANNOTATION).is_some()
}

fn left_to_repeat(pass: &Pass) -> Option<Duration> {
    let failed = pending_step(pass).filter(|step| step.failed())?;
    let retry = retry_of(pass.settings, failed.code?);
    let left = retry.saturating_sub(pass.since_failure(failed));
    (!left.is_zero() && !pass.view.hurry).then_some(left)
}

fn last_applied(pass: &Pass) -> Option<Value> {
    let text = annotation(pass, keys::LAST_APPLIED_PROVIDER_SPEC_ANNOTATION)?;
    serde_json::from_str(text).ok()
}

fn annotation<'a>(pass: &Pass<'a>, key: &str) -> Option<&'a str> {
    let annotations = pass.machine().metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The first 16 digits of a SHA-256.
fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(8).fold(String::new(), |mut hash, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}
