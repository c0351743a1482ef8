//! The end of a job and its conditions: first the expected result (SuccessCriteriaMet, FailureTarget), and
//! after its last pod the final one (Complete, Failed).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::count::Tally;
use super::scene::Scene;
use super::verdict::Verdict;
use crate::workloads::meta;
use crate::workloads::plan::{Note, Plan};
use crate::workloads::pods;

fn condition_of<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    let holds = |condition: &&JobCondition| condition.type_ == type_ && condition.status == "True";
    status.conditions.iter().flatten().find(holds)
}

/// When a job finished, if it did.
pub(super) fn finished_at(status: &JobStatus) -> Option<Timestamp> {
    let end = condition_of(status, "Complete").or_else(|| condition_of(status, "Failed"))?;
    Some(
        end.last_transition_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}

/// The verdict: already recorded in the status, or from failures and deadlines.
pub(super) fn verdict(plan: &mut Plan, scene: &Scene<'_>, tally: &Tally) -> Verdict {
    let reason_and_message = |condition: &JobCondition| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&condition.reason), text(&condition.message))
    };
    if let Some(condition) = condition_of(&scene.status, "SuccessCriteriaMet") {
        let (reason, message) = reason_and_message(condition);
        return Verdict::Success { reason, message };
    }
    if let Some(condition) = condition_of(&scene.status, "FailureTarget") {
        let (reason, message) = reason_and_message(condition);
        return Verdict::Failure { reason, message };
    }
    if exceeds_backoff_limit(scene, tally) {
        return Verdict::Failure {
            reason: "BackoffLimitExceeded".to_owned(),
            message: "Job has reached the specified backoff limit".to_owned(),
        };
    }
    if let Some(deadline) = deadline(scene) {
        if deadline <= scene.now {
            return Verdict::Failure {
                reason: "DeadlineExceeded".to_owned(),
                message: "Job was active longer than specified deadline".to_owned(),
            };
        }
        plan.wake(Some(deadline));
    }
    Verdict::Open
}

/// When the job exceeds its active deadline.
fn deadline(scene: &Scene<'_>) -> Option<Timestamp> {
    if scene.is_suspended() {
        return None;
    }
    let seconds = scene.spec.active_deadline_seconds?;
    Some(meta::later(scene.status.start_time.as_ref()?.0, seconds))
}

/// Whether failed pods, or in-place container restarts, exceed the backoff limit.
fn exceeds_backoff_limit(scene: &Scene<'_>, tally: &Tally) -> bool {
    let limit = scene.spec.backoff_limit.unwrap_or(6);
    if tally.failed > limit {
        return true;
    }
    let template = scene.spec.template.spec.as_ref();
    if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let active = scene
        .pods
        .iter()
        .filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
    let restarts = quantity::total(active.map(|pod| all_restarts(pod)));
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn all_restarts(pod: &k8s_openapi::api::core::v1::Pod) -> i32 {
    let Some(status) = &pod.status else { return 0 };
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    quantity::total(init.chain(main).map(|container| container.restart_count))
}

/// Whether enough pods succeeded; `active` is the number of remaining pods.
pub(super) fn completed(scene: &Scene<'_>, tally: &Tally, active: usize) -> Verdict {
    let enough = match scene.spec.completions {
        None => tally.succeeded > 0 && active == 0,
        Some(completions) => tally.succeeded >= completions,
    };
    if !enough {
        return Verdict::Open;
    }
    Verdict::Success {
        reason: "CompletionsReached".to_owned(),
        message: "Reached expected number of succeeded pods".to_owned(),
    }
}

/// Updates the Suspended condition; resuming restarts the start time.
pub(super) fn suspend_or_resume(scene: &mut Scene<'_>) -> Option<Note> {
    let suspended = scene.is_suspended();
    let now = scene.now;
    let conditions = scene.status.conditions.get_or_insert_default();
    let current = conditions.iter_mut().find(|condition| condition.type_ == "Suspended");
    let (status, reason, message) = if suspended {
        ("True", "JobSuspended", "Job suspended")
    } else {
        ("False", "JobResumed", "Job resumed")
    };
    let new = condition("Suspended", status, reason, message, now);
    match current {
        Some(current) if current.status == status => return None,
        Some(current) => *current = new,
        None if suspended => conditions.push(new),
        None => {
            if conditions.is_empty() {
                scene.status.conditions = None;
            }
            return None;
        }
    }
    scene.status.start_time = (!suspended).then_some(Time(now));
    Some(Note::normal(if suspended { "Suspended" } else { "Resumed" }, message))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Writes the verdict into the conditions: the expected result and, when no pod is left and all are counted,
/// the final one. Returns the event for the final one.
pub(super) fn conclude(status: &mut JobStatus, verdict: &Verdict, now: Timestamp, pods_left: usize) -> Option<Note> {
    let (target, end, reason, message) = match verdict {
        Verdict::Open => return None,
        Verdict::Success { reason, message } => ("SuccessCriteriaMet", "Complete", reason, message),
        Verdict::Failure { reason, message } => ("FailureTarget", "Failed", reason, message),
    };
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let all_counted = uncounted.succeeded.is_none() && uncounted.failed.is_none();
    let known = condition_of(status, target).is_some();
    let conditions = status.conditions.get_or_insert_default();
    if !known {
        conditions.push(condition(target, "True", reason, message, now));
    }
    if pods_left > 0 || !all_counted {
        return None;
    }
    conditions.push(condition(end, "True", reason, message, now));
    if end == "Complete" {
        status.completion_time = Some(Time(now));
        return Some(Note::normal("Completed", "Job completed"));
    }
    let reason = if reason == "DeadlineExceeded" {
        "DeadlineExceeded"
    } else {
        "BackoffLimitExceeded"
    };
    Some(Note::warning(reason, message.clone()))
}
