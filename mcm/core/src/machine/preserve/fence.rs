//! Fencing: the drain of a preserved failed machine is over, its node is not Ready, and pods that must not run twice are
//! still on it. They leave the API once the VM is known to be stopped: by a taint of the Node, by the driver's
//! GetMachineStatus, or because the driver has stopped it (`--preserve-fencing=stop-vm`).
//!
//! The status records that StopMachine is called before it is, as its outcome may be lost. The call can be repeated.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::{Code, DriverError, Fencing, FencingState, MachineStatus, Phase, Preservation};

use super::super::creation::retry_of;
use super::super::drain::{concerned, deletions, is_silent, is_tainted_as_stopped, ready, silent_in};
use super::super::drain_memory::{Attempt, DrainMemory, EvictionOutcome};
use super::super::pass::Pass;
use super::super::{Action, Answer, CallKind, CloudCall, Fencing as Policy, Plan, Pod, Reason, validation};
use super::marks::condition;
use super::{Facts, count, event, names, text};
use crate::event::EventType;

/// How long StopMachine may succeed without a stopped VM before that is reported.
const STOP_TIME: Duration = Duration::from_mins(5);

/// The next step; `None`: no pod is kept.
pub(super) fn decide(pass: &Pass, facts: &Facts) -> Option<Plan> {
    if pass.phase() != Some(&Phase::Failed) || !facts.now.vm {
        return None;
    }
    let record = facts.record.as_ref()?;
    pass.view.node.present()?;
    let pods = concerned(pass.view.pods.as_deref()?);
    let unique: Vec<Pod> = pods.iter().filter(|pod| pod.is_unique()).cloned().collect();
    if let Some(plan) = forget(pass, record, &unique) {
        return Some(plan);
    }
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
        ask(pass, &unique)
    })
}

/// Removes the record of a stop whose cause is over: the next one is recorded before it begins. While the node is not Ready,
/// the record of a stopped VM stays.
fn forget(pass: &Pass, record: &Preservation, unique: &[Pod]) -> Option<Plan> {
    let fencing = record.fencing.as_ref()?;
    let is_ready = ready(pass).is_some_and(|ready| ready.status == "True");
    let is_done = unique.is_empty() && fencing.state != FencingState::Stopped;
    (is_ready || is_done).then(|| Plan {
        status: Some(MachineStatus {
            preservation: Some(Preservation {
                fencing: None,
                ..record.clone()
            }),
            ..pass.machine().status.clone()
        }),
        ..Plan::new(Reason::Preservation("the VM no longer has to be stopped".to_owned())).after(Duration::ZERO)
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

/// The wait until pods are deleted again: those whose deletion failed, and those that stay because of a finalizer; `None`: a
/// pod has not been deleted, or long enough ago.
fn until_next_deletion(pass: &Pass, unique: &[Pod]) -> Option<Duration> {
    let retry = &pass.settings.retry;
    let left = |pod: &Pod| {
        let attempt = deletion(pass, pod)?;
        let period = match attempt.outcome {
            EvictionOutcome::Accepted => retry.long,
            _ => retry.short,
        };
        let left = period.saturating_sub(since(pass, attempt.last));
        (!left.is_zero()).then_some(left)
    };
    let waits: Option<Vec<Duration>> = unique.iter().map(left).collect();
    waits?.into_iter().min()
}

/// The last deletion of a pod on a stopped VM.
fn deletion<'a>(pass: &Pass<'a>, pod: &Pod) -> Option<&'a Attempt> {
    let attempt = pass.view.drain.attempts.get(&pod.uid);
    attempt.filter(|_| is_requested(pass, pod))
}

fn since(pass: &Pass, time: Timestamp) -> Duration {
    Duration::try_from(pass.now.duration_since(time)).unwrap_or_default()
}

/// The VM is stopped: the pods leave the API. A repeated deletion is not reported again.
fn removed(pass: &Pass, facts: &Facts, record: &Preservation, pods: Vec<Pod>) -> Plan {
    let by_us = matches!(pass.last_answer(), Some(Answer::Stop(_)));
    let how = if by_us {
        "stopped by its driver on request"
    } else {
        "stopped"
    };
    let new = pods.iter().filter(|pod| !is_requested(pass, pod)).count();
    let message = format!("Preserved node is {how}: {} left the API.", count(new));
    let mut plan = Plan::new(Reason::Preservation(message.clone())).after(Duration::ZERO);
    let mut memory = DrainMemory {
        by_force: Some(pods.iter().map(|pod| pod.uid.clone()).collect()),
        ..pass.view.drain.clone()
    };
    // Earlier evictions are not deletions.
    memory.attempts.retain(|uid, _| pods.iter().all(|pod| pod.uid != *uid));
    plan.drain = Some(memory);
    plan.actions.extend(deletions(pods));
    if record.fencing.is_some() {
        plan.status = with_fencing(pass, record, FencingState::Stopped, None);
    }
    if new == 0 {
        return plan;
    }
    plan.actions.extend(reported(pass, facts, &message));
    plan.act(event(EventType::Normal, "PodsOfStoppedNodeDeleted", message))
}

/// Whether the pod has been deleted because the VM was stopped.
fn is_requested(pass: &Pass, pod: &Pod) -> bool {
    let requested = pass.view.drain.by_force.as_ref();
    requested.is_some_and(|requested| requested.contains(&pod.uid))
}

/// Asks the driver whether the VM runs.
fn ask(pass: &Pass, unique: &[Pod]) -> Plan {
    let retry = pass.settings.retry.long;
    if let Some(Answer::Status(_)) = pass.last_answer() {
        return Plan::new(Reason::Nothing).after(retry);
    }
    // A deletion that failed after the last question is repeated, if the VM is still stopped.
    let failed = |pod: &Pod| deletion(pass, pod).filter(|attempt| attempt.outcome != EvictionOutcome::Accepted);
    let failed = unique.iter().filter_map(failed).map(|attempt| attempt.last).max();
    let asked = pass
        .view
        .power_asked
        .filter(|asked| failed.is_none_or(|failed| failed < *asked));
    let left = asked.map(|asked| retry.saturating_sub(since(pass, asked)));
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        return Plan::new(Reason::Nothing).after(left);
    }
    call(pass, CallKind::Status, "the cloud is asked whether the VM runs")
}

/// The next step of stopping the VM.
fn stop(pass: &Pass, facts: &Facts, record: &Preservation, unique: &[Pod]) -> Plan {
    match (pass.last_answer(), stop_error(pass)) {
        (Some(Answer::Stop(Ok(_))), _) => stopping(pass, facts, record, unique),
        (Some(Answer::Stop(Err(error))), _) if error.code == Code::Unimplemented => {
            failed(pass, facts, record, unique, Some(error))
        }
        // The call may have had an effect.
        (Some(Answer::Stop(Err(_))), _) => {
            let text = "StopMachine failed: the cloud is asked whether the VM runs";
            call(pass, CallKind::Status, text)
        }
        (Some(Answer::Status(_)), Some(error)) => failed(pass, facts, record, unique, Some(error)),
        _ => begin(pass, record, unique),
    }
}

/// StopMachine succeeded, and the VM is not stopped yet.
fn stopping(pass: &Pass, facts: &Facts, record: &Preservation, unique: &[Pod]) -> Plan {
    // Until the first success, the time is that of the first failure.
    let too_long = |fencing: &Fencing| {
        let succeeded_before = fencing.state == FencingState::Stopping;
        does_not_stop(fencing) || succeeded_before && pass.since(fencing.since.as_ref()) > STOP_TIME
    };
    if record.fencing.as_ref().is_some_and(too_long) {
        return failed(pass, facts, record, unique, None);
    }
    let text = "the VM is stopping; it is asked again whether it is stopped".to_owned();
    Plan {
        status: with_fencing(pass, record, FencingState::Stopping, None),
        ..Plan::new(Reason::Preservation(text)).after(pass.settings.retry.short)
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
    if let Some(left) = until_pods_end(pass, unique) {
        let text = "the kubelet ends the pods that must not run twice".to_owned();
        return Plan::new(Reason::Preservation(text)).after(left);
    }
    match &record.fencing {
        Some(fencing) if fencing.state != FencingState::Stopped => match left_to_repeat(pass, fencing) {
            Some(left) => Plan::new(Reason::WaitingToRepeat(left)).after(left),
            None => call(pass, CallKind::Stop, "the VM is stopped"),
        },
        _ => intend(pass, record, unique),
    }
}

/// The rest of the longest grace period. A kubelet that answers writes the status False; without one, it becomes Unknown.
fn until_pods_end(pass: &Pass, unique: &[Pod]) -> Option<Duration> {
    ready(pass).filter(|ready| ready.status == "False")?;
    let ends = unique.iter().filter_map(|pod| pod.ends).max()?;
    let left = Duration::try_from(ends.duration_since(pass.now)).ok();
    left.filter(|left| !left.is_zero())
}

/// Records that StopMachine will be called. A stop that only repeats a deletion is not reported again.
fn intend(pass: &Pass, record: &Preservation, unique: &[Pod]) -> Plan {
    let text = format!(
        "the node is not Ready, and {} that must not run twice {} on it ({}): its VM is stopped",
        count(unique.len()),
        if unique.len() == 1 { "is" } else { "are" },
        names(unique)
    );
    let plan = Plan {
        status: with_fencing(pass, record, FencingState::Stopping, None),
        ..Plan::new(Reason::Preservation(text.clone())).after(Duration::ZERO)
    };
    if unique.iter().all(|pod| is_requested(pass, pod)) {
        return plan;
    }
    plan.act(event(EventType::Normal, "StoppingVM", text))
}

/// The remaining wait after a StopMachine that did not stop the VM.
fn left_to_repeat(pass: &Pass, fencing: &Fencing) -> Option<Duration> {
    let code = Code::from_name(&fencing.error_code).filter(|_| fencing.state == FencingState::Failed);
    let after_error = code.map(|code| {
        let written = pass.since(fencing.since.as_ref());
        let again = pass.view.call_failed.map(|at| since(pass, at));
        let waited = again.map_or(written, |again| again.min(written));
        retry_after(pass, Some(code)).saturating_sub(waited)
    });
    let after_call = pass.view.power_asked.map(|at| {
        let retry = &pass.settings.retry;
        let period = if does_not_stop(fencing) {
            retry.medium
        } else {
            retry.short
        };
        period.saturating_sub(since(pass, at))
    });
    let left = after_error.max(after_call).unwrap_or_default();
    (!left.is_zero() && !pass.view.hurry).then_some(left)
}

/// Whether the record says that StopMachine succeeds, but does not stop the VM.
fn does_not_stop(fencing: &Fencing) -> bool {
    fencing.state == FencingState::Failed && fencing.error_code.is_empty()
}

/// The wait after a StopMachine with that error; `None`: it succeeds, but does not stop the VM.
fn retry_after(pass: &Pass, code: Option<Code>) -> Duration {
    let retry = &pass.settings.retry;
    match code {
        None => retry.medium,
        Some(Code::Unimplemented | Code::NotFound) => retry.long,
        Some(code) => retry_of(pass.settings, code),
    }
}

/// The VM is not known to be stopped: the pods stay. `error` is that of StopMachine; `None`: it succeeds.
fn failed(pass: &Pass, facts: &Facts, record: &Preservation, unique: &[Pod], error: Option<&DriverError>) -> Plan {
    let code = error.map(|error| error.code);
    let why = match code {
        None => "StopMachine succeeds, but the driver does not report the VM as stopped".to_owned(),
        Some(Code::Unimplemented) => "its driver cannot stop VMs".to_owned(),
        // The cloud may not show a VM that exists.
        Some(Code::NotFound) => {
            "the cloud has no VM of this machine; release the preservation to replace it".to_owned()
        }
        Some(code) => format!("its VM could not be stopped ({code})"),
    };
    let message = format!(
        "Preserved node is not Ready: {} kept: {}; {why}.",
        count(unique.len()),
        names(unique)
    );
    let plan = Plan::new(Reason::Preservation(message.clone())).after(retry_after(pass, code));
    let Some(status) = with_fencing(pass, record, FencingState::Failed, code) else {
        return plan;
    };
    let text = match error {
        Some(error) => format!("StopMachine failed: {error}. {message}"),
        None => message.clone(),
    };
    let mut plan = plan.act(event(EventType::Warning, "StopVMFailed", text));
    plan.actions.extend(reported(pass, facts, &message));
    plan.status = Some(status);
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
