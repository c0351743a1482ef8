//! Fencing: the drain of a preserved failed machine is over, its node does not answer, and pods that must not run twice
//! are still on it. They leave the API once the VM is known to be stopped: by a taint of the Node, by the driver's
//! GetMachineStatus, or because the driver has stopped it (`--preserve-fencing=stop-vm`).
//!
//! The status records that StopMachine is called before it is, as its outcome may be lost. The call can be repeated.

use std::time::Duration;

use mcm_api::{Code, DriverError, Fencing, FencingState, MachineStatus, Phase, Preservation};

use super::super::creation::retry_of;
use super::super::drain::{concerned, deletions, is_silent, is_tainted_as_stopped, silent_in};
use super::super::pass::Pass;
use super::super::{
    Action, Answer, CallKind, CloudCall, DrainMemory, Fencing as Policy, Plan, Pod, Reason, validation,
};
use super::marks::condition;
use super::{Facts, count, event, names, text};
use crate::event::EventType;

/// The next step; `None`: no pod is kept.
pub(super) fn decide(pass: &Pass, facts: &Facts) -> Option<Plan> {
    if pass.phase() != Some(&Phase::Failed) || !facts.now.vm {
        return None;
    }
    let record = facts.record.as_ref()?;
    pass.view.node.present()?;
    let pods = concerned(pass.view.pods.as_deref()?);
    let unique: Vec<Pod> = pods.iter().filter(|pod| pod.is_unique()).cloned().collect();
    if unique.is_empty() {
        return None;
    }
    if !is_silent(pass) {
        return silent_in(pass).map(|left| Plan::new(Reason::Nothing).after(left));
    }
    if let Some(wait) = until_next_deletion(pass, &unique) {
        return Some(Plan::new(Reason::Nothing).after(wait));
    }
    let stopped_by_driver = pass.last_answer().is_some_and(|answer| is_stopped(pass, answer));
    Some(if is_tainted_as_stopped(pass) || stopped_by_driver {
        removed(pass, facts, record, pods)
    } else if pass.settings.fencing == Policy::StopVm {
        stop(pass, facts, record, &unique)
    } else {
        ask(pass)
    })
}

/// Whether the driver reported this machine's VM as stopped.
fn is_stopped(pass: &Pass, answer: &Answer) -> bool {
    let provider_id = match answer {
        Answer::Status(Ok(vm)) | Answer::Stop(Ok(vm)) => vm.provider_id.as_ref(),
        _ => None,
    };
    let other = |id: &str| id != pass.machine().spec.provider_id;
    if defect!(FailedStopCountsAsStopped) && matches!(answer, Answer::Stop(Err(_))) {
        return true;
    }
    answer.shows_stopped_vm() && !provider_id.is_some_and(|id| other(id.as_str()))
}

/// The wait until pods are deleted again whose deletion failed, or which the cache still shows; `None`: they have not been
/// deleted, or long enough ago.
fn until_next_deletion(pass: &Pass, unique: &[Pod]) -> Option<Duration> {
    let requested = pass.view.drain.by_force.as_ref()?;
    let retry = pass.settings.retry.short;
    let left = |pod: &Pod| {
        let attempt = pass.view.drain.attempts.get(&pod.uid)?;
        let since = Duration::try_from(pass.now.duration_since(attempt.last)).unwrap_or_default();
        retry.checked_sub(since).filter(|left| !left.is_zero())
    };
    let mut waits = unique
        .iter()
        .map(|pod| left(pod).filter(|_| requested.contains(&pod.uid)));
    waits.try_fold(Duration::ZERO, |longest, wait| wait.map(|wait| longest.max(wait)))
}

/// The VM is stopped: the pods leave the API.
fn removed(pass: &Pass, facts: &Facts, record: &Preservation, pods: Vec<Pod>) -> Plan {
    let by_us = matches!(pass.last_answer(), Some(Answer::Stop(_)));
    let how = if by_us {
        "stopped by its driver on request"
    } else {
        "stopped"
    };
    let message = format!("Preserved node is {how}: {} left the API.", count(pods.len()));
    let mut plan = Plan::new(Reason::Preservation(message.clone())).after(Duration::ZERO);
    plan.drain = Some(DrainMemory {
        by_force: Some(pods.iter().map(|pod| pod.uid.clone()).collect()),
        ..pass.view.drain.clone()
    });
    plan.actions.extend(deletions(pods));
    plan.actions.extend(reported(pass, facts, &message));
    if record.fencing.is_some() {
        plan.status = with_fencing(pass, record, FencingState::Stopped, None);
    }
    plan.act(event(EventType::Normal, "PodsOfStoppedNodeDeleted", message))
}

/// Asks the driver whether the VM runs.
fn ask(pass: &Pass) -> Plan {
    let retry = pass.settings.retry.long;
    let waited = pass.view.power_asked.map(|asked| pass.now.duration_since(asked));
    let waited = waited.map(|waited| Duration::try_from(waited).unwrap_or_default());
    let left = waited.map(|waited| retry.saturating_sub(waited));
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        return Plan::new(Reason::Nothing).after(left);
    }
    call(pass, CallKind::Status, "the cloud is asked whether the VM runs")
}

/// The next step of stopping the VM.
fn stop(pass: &Pass, facts: &Facts, record: &Preservation, unique: &[Pod]) -> Plan {
    let retry = &pass.settings.retry;
    match (pass.last_answer(), stop_error(pass)) {
        (Some(Answer::Stop(Ok(_))), _) => {
            let text = "the VM is stopping; it is asked again whether it is stopped".to_owned();
            Plan::new(Reason::Preservation(text)).after(retry.short)
        }
        (Some(Answer::Stop(Err(error))), _) if error.code == Code::Unimplemented => {
            failed(pass, facts, record, unique, error)
        }
        // The call may have had an effect.
        (Some(Answer::Stop(Err(_))), _) => {
            let text = "StopMachine failed: the cloud is asked whether the VM runs";
            call(pass, CallKind::Status, text)
        }
        (Some(Answer::Status(_)), Some(error)) => failed(pass, facts, record, unique, error),
        _ => begin(pass, record, unique),
    }
}

/// The error of StopMachine in this pass.
fn stop_error<'a>(pass: &Pass<'a>) -> Option<&'a DriverError> {
    pass.view.answers.iter().rev().find_map(|answer| match answer {
        Answer::Stop(Err(error)) => Some(error),
        _ => None,
    })
}

/// Records that StopMachine will be called, or calls it.
fn begin(pass: &Pass, record: &Preservation, unique: &[Pod]) -> Plan {
    let Some(fencing) = &record.fencing else {
        let text = format!(
            "the node does not answer, and {} that must not run twice {} on it ({}): its VM is stopped",
            count(unique.len()),
            if unique.len() == 1 { "is" } else { "are" },
            names(unique)
        );
        return Plan {
            status: with_fencing(pass, record, FencingState::Stopping, None),
            ..Plan::new(Reason::Preservation(text.clone())).after(Duration::ZERO)
        }
        .act(event(EventType::Normal, "StoppingVM", text));
    };
    if let Some(left) = left_to_repeat(pass, fencing) {
        return Plan::new(Reason::WaitingToRepeat(left)).after(left);
    }
    call(pass, CallKind::Stop, "the VM is stopped")
}

/// The remaining wait after a failed StopMachine.
fn left_to_repeat(pass: &Pass, fencing: &Fencing) -> Option<Duration> {
    let code = Code::from_name(&fencing.error_code).filter(|_| fencing.state == FencingState::Failed)?;
    let written = pass.since(fencing.since.as_ref());
    let again = pass.view.call_failed.map(|at| pass.now.duration_since(at));
    let again = again.map(|again| Duration::try_from(again).unwrap_or_default());
    let waited = again.map_or(written, |again| again.min(written));
    let left = retry_after(pass, code).saturating_sub(waited);
    (!left.is_zero() && !pass.view.hurry).then_some(left)
}

fn retry_after(pass: &Pass, code: Code) -> Duration {
    match code {
        Code::Unimplemented => pass.settings.retry.long,
        code => retry_of(pass.settings, code),
    }
}

/// StopMachine failed, and the VM is not known to be stopped: the pods stay.
fn failed(pass: &Pass, facts: &Facts, record: &Preservation, unique: &[Pod], error: &DriverError) -> Plan {
    let retry = retry_after(pass, error.code);
    let why = match error.code {
        Code::Unimplemented => "its driver cannot stop VMs".to_owned(),
        code => format!("its VM could not be stopped ({code})"),
    };
    let message = format!(
        "Preserved node does not answer: {} kept: {}; {why}.",
        count(unique.len()),
        names(unique)
    );
    let plan = Plan::new(Reason::Preservation(message.clone())).after(retry);
    let known = record.fencing.as_ref();
    if known.is_some_and(|known| known.state == FencingState::Failed && known.error_code == error.code.name()) {
        return plan;
    }
    let mut plan = plan.act(event(
        EventType::Warning,
        "StopVMFailed",
        format!("StopMachine failed: {error}. {message}"),
    ));
    plan.actions.extend(reported(pass, facts, &message));
    plan.status = with_fencing(pass, record, FencingState::Failed, Some(error.code));
    plan
}

/// The Node condition with that message about the drain.
fn reported(pass: &Pass, facts: &Facts, message: &str) -> Option<Action> {
    let message = format!("{message} {}", text(&pass.machine().status));
    condition(pass, facts, true, message.trim_end())
}

fn with_fencing(pass: &Pass, record: &Preservation, state: FencingState, code: Option<Code>) -> Option<MachineStatus> {
    let fencing = Fencing {
        state,
        since: Some(pass.stamp()),
        error_code: code.map(|code| code.name().to_owned()).unwrap_or_default(),
    };
    let known = record.fencing.as_ref();
    let same = known.is_some_and(|known| known.state == fencing.state && known.error_code == fencing.error_code);
    (!same).then(|| MachineStatus {
        preservation: Some(Preservation {
            fencing: Some(fencing),
            ..record.clone()
        }),
        ..pass.machine().status.clone()
    })
}

fn call(pass: &Pass, kind: CallKind, reason: &str) -> Plan {
    let class = match validation::class(pass) {
        Ok(class) => class.clone(),
        Err(reason) => return Plan::new(reason).after(pass.settings.retry.long),
    };
    let call = CloudCall {
        kind,
        machine: pass.machine().clone(),
        class,
        last_applied: None,
        secret: pass.view.secret.data.clone(),
    };
    Plan::new(Reason::Preservation(reason.to_owned())).act(Action::Call(Box::new(call)))
}
