//! Status and conditions: pod counts, availability, and whether the rollout progresses, is complete, or exceeds
//! its deadline.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::numbers;
use super::sets::{Scene, Set};
use crate::workloads::meta::{self, counted};
use crate::workloads::plan::Attempt;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Sets a condition as upstream does: unchanged while status and reason stay the same.
fn set_condition(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let conditions = status.conditions.get_or_insert_default();
    if let Some(current) = conditions.iter().find(|current| current.type_ == condition.type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time.clone_from(&current.last_transition_time);
        }
    }
    conditions.retain(|current| current.type_ != condition.type_);
    conditions.push(condition);
}

fn remove_condition(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}

fn condition_of<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == type_)
}

fn progressing(deployment: &Deployment) -> Option<&DeploymentCondition> {
    condition_of(deployment.status.as_ref()?, PROGRESSING)
}

fn condition(type_: &str, status: &str, reason: &str, message: String, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
    }
}

fn has_reason(condition: Option<&DeploymentCondition>, reason: &str) -> bool {
    condition.is_some_and(|condition| condition.reason.as_deref() == Some(reason))
}

fn has_deadline(spec: &DeploymentSpec) -> bool {
    spec.progress_deadline_seconds
        .is_some_and(|seconds| seconds != i32::MAX)
}

fn set_progressing(scene: &mut Scene<'_>, status: &str, reason: &str, message: String) {
    let updated = condition(PROGRESSING, status, reason, message, scene.now);
    set_condition(scene.deployment.status.get_or_insert_default(), updated);
}

/// Sets the Progressing condition when a rollout is paused or resumed. A timed out deployment keeps its
/// condition.
pub fn note_pause(scene: &mut Scene<'_>) {
    let current = progressing(&scene.deployment);
    if !has_deadline(scene.spec) || has_reason(current, TIMED_OUT) {
        return;
    }
    let was_paused = has_reason(current, PAUSED);
    if scene.is_paused() && !was_paused {
        set_progressing(scene, "Unknown", PAUSED, "Deployment is paused".to_owned());
    } else if !scene.is_paused() && was_paused {
        set_progressing(
            scene,
            "Unknown",
            "DeploymentResumed",
            "Deployment is resumed".to_owned(),
        );
    }
}

/// Sets the Progressing condition for an existing set of the current template, unless it has a condition.
pub fn note_found(scene: &mut Scene<'_>, name: &str) {
    if has_deadline(scene.spec) && progressing(&scene.deployment).is_none() {
        let message = format!("Found new replica set \"{name}\"");
        set_progressing(scene, "True", "FoundNewReplicaSet", message);
    }
}

/// Sets the Progressing condition for a created set or, after a failure, the failure.
pub fn note_created(scene: &mut Scene<'_>, name: &str) {
    if !has_deadline(scene.spec) {
        return;
    }
    match scene
        .view
        .failure
        .as_ref()
        .filter(|failure| failure.what == Attempt::Create)
    {
        Some(failure) => {
            let message = failure.message.clone();
            set_progressing(scene, "False", "ReplicaSetCreateError", message);
        }
        None => {
            let message = format!("Created new replica set \"{name}\"");
            set_progressing(scene, "True", "NewReplicaSetCreated", message);
        }
    }
}

/// Updates counts and availability; for a deployment without a rollout.
pub fn sync_status(scene: &mut Scene<'_>) {
    let status = count(scene);
    scene.deployment.status = Some(status);
}

/// Like [`sync_status`], and updates the progress of the rollout.
pub fn sync_rollout_status(scene: &mut Scene<'_>) {
    let before = scene.view.deployment.status.clone().unwrap_or_default();
    let mut status = count(scene);
    let current = condition_of(&status, PROGRESSING).cloned();
    if has_deadline(scene.spec) {
        let settled = status.replicas == status.updated_replicas && has_reason(current.as_ref(), DONE);
        if !settled {
            evaluate_progress(scene, &before, &mut status, current.as_ref());
        }
    } else {
        remove_condition(&mut status, PROGRESSING);
    }
    match failure_of(scene) {
        Some(failure) => set_condition(&mut status, failure),
        None => remove_condition(&mut status, REPLICA_FAILURE),
    }
    scene.deployment.status = Some(status);
}

/// Evaluates the rollout: complete, progressing, or past its deadline.
fn evaluate_progress(
    scene: &Scene<'_>,
    before: &DeploymentStatus,
    status: &mut DeploymentStatus,
    current: Option<&DeploymentCondition>,
) {
    let whose = scene.sets.new.as_ref().map_or_else(
        || format!("Deployment \"{}\"", scene.owner.name),
        |set| format!("ReplicaSet \"{}\"", set.name()),
    );
    let now = scene.now;
    if complete(scene, status) {
        let message = format!("{whose} has successfully progressed.");
        set_condition(status, condition(PROGRESSING, "True", DONE, message, now));
    } else if has_progressed(before, status) {
        let message = format!("{whose} is progressing.");
        let mut moving = condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        if let Some(current) = current.filter(|current| current.status == "True") {
            moving.last_transition_time.clone_from(&current.last_transition_time);
        }
        // Every step updates the time of the last progress, from which the deadline counts.
        remove_condition(status, PROGRESSING);
        set_condition(status, moving);
    } else if is_overdue(scene.spec, current, now) {
        let message = format!("{whose} has timed out progressing.");
        set_condition(status, condition(PROGRESSING, "False", TIMED_OUT, message, now));
    }
}

fn has_progressed(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let number = Option::unwrap_or_default;
    let old_pods = |status: &DeploymentStatus| number(status.replicas).saturating_sub(number(status.updated_replicas));
    number(status.updated_replicas) > number(before.updated_replicas)
        || old_pods(status) < old_pods(before)
        || number(status.ready_replicas) > number(before.ready_replicas)
        || number(status.available_replicas) > number(before.available_replicas)
}

fn is_overdue(spec: &DeploymentSpec, current: Option<&DeploymentCondition>, now: Timestamp) -> bool {
    let Some(current) = current else { return false };
    if has_reason(Some(current), DONE) {
        return false;
    }
    has_reason(Some(current), TIMED_OUT) || deadline_of(spec, current).is_some_and(|deadline| deadline < now)
}

fn deadline_of(spec: &DeploymentSpec, current: &DeploymentCondition) -> Option<Timestamp> {
    let seconds = spec.progress_deadline_seconds?;
    let since = current.last_update_time.as_ref()?;
    Some(meta::later(since.0, i64::from(seconds)))
}

/// When a stalled rollout exceeds its deadline: one second later than specified, because times are written in
/// whole seconds.
pub fn deadline(deployment: &Deployment, spec: &DeploymentSpec, now: Timestamp) -> Option<Timestamp> {
    let current = progressing(deployment)?;
    let over = has_reason(Some(current), DONE) || has_reason(Some(current), TIMED_OUT) || !has_deadline(spec);
    if over || spec.paused == Some(true) {
        return None;
    }
    let deadline = meta::later(deadline_of(spec, current)?, 1);
    Some(deadline.max(meta::later(now, 1)))
}

/// Whether all pods have the current template and are available.
pub fn is_complete(scene: &Scene<'_>) -> bool {
    scene
        .view
        .deployment
        .status
        .as_ref()
        .is_some_and(|status| complete(scene, status))
}

fn complete(scene: &Scene<'_>, status: &DeploymentStatus) -> bool {
    let wanted = numbers::replicas(scene.spec);
    [status.updated_replicas, status.replicas, status.available_replicas]
        .into_iter()
        .all(|count| count.unwrap_or_default() == wanted)
        && status.observed_generation >= scene.deployment.metadata.generation
}

fn count(scene: &Scene<'_>) -> DeploymentStatus {
    let before = scene.deployment.status.clone().unwrap_or_default();
    let sum = |of: fn(&Set) -> i32| quantity::total(scene.sets.all().map(of));
    let available = sum(Set::available);
    let mut status = DeploymentStatus {
        observed_generation: scene.deployment.metadata.generation,
        replicas: counted(sum(Set::actual)),
        updated_replicas: counted(scene.sets.new.as_ref().map_or(0, Set::actual)),
        ready_replicas: counted(sum(Set::ready)),
        available_replicas: counted(available),
        unavailable_replicas: counted(scene.sets.total().saturating_sub(available).max(0)),
        terminating_replicas: Some(sum(Set::terminating)),
        collision_count: before.collision_count,
        conditions: before.conditions,
    };
    let least = numbers::replicas(scene.spec).saturating_sub(numbers::max_unavailable(scene.spec));
    let updated = if available >= least {
        let message = "Deployment has minimum availability.".to_owned();
        condition(AVAILABLE, "True", "MinimumReplicasAvailable", message, scene.now)
    } else {
        let message = "Deployment does not have minimum availability.".to_owned();
        condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message, scene.now)
    };
    set_condition(&mut status, updated);
    status
}

/// The replica failure of the new set or, if it has none, of another set.
fn failure_of(scene: &Scene<'_>) -> Option<DeploymentCondition> {
    let failure = |set: &Set| {
        let conditions = set.now.status.as_ref()?.conditions.as_ref()?;
        conditions
            .iter()
            .find(|condition| condition.type_ == REPLICA_FAILURE)
            .cloned()
    };
    let failure = scene.sets.new.iter().chain(&scene.sets.old).find_map(failure)?;
    Some(DeploymentCondition {
        type_: failure.type_,
        status: failure.status,
        reason: failure.reason,
        message: failure.message,
        last_transition_time: failure.last_transition_time.clone(),
        last_update_time: failure.last_transition_time,
    })
}
