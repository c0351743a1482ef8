//! The status and conditions of a deployment, computed from its sets.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::MachineDeployment;
use mcm_api::deployment::{MachineDeploymentCondition, MachineDeploymentStatus};
use mcm_api::set::MachineSetStatus;

use super::rollout_draft::RolloutDraft;
use crate::preservation::{OwnersList, is_rolling, sweep};
use crate::set::{INVALID, is_active, stamp};
use crate::template::template_hash;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
const SUSPENDED: &str = "PreservationSuspended";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The reason of a finished rollout.
pub(super) const DONE: &str = "NewMachineSetAvailable";
const LATE: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// The counts, and the condition `Available`.
pub(super) fn compute(rollout: &RolloutDraft, newest: Option<usize>) -> MachineDeploymentStatus {
    let known = &rollout.view.deployment.status;
    let sets = || rollout.sets.iter().map(|set| &set.set.status);
    let count = |of: fn(&MachineSetStatus) -> i32| total(sets().map(of));
    let available = count(|status| status.available_replicas);
    let preserved = count(|status| status.preserved_failed_replicas);
    let ordered = total(rollout.sets.iter().map(|set| set.replicas()));
    let mut failed: Vec<_> = sets()
        .flat_map(|status| status.failed_machines.iter().flatten().cloned())
        .collect();
    failed.sort_by(|a, b| a.name.cmp(&b.name));
    let mut status = MachineDeploymentStatus {
        observed_generation: rollout.view.deployment.metadata.generation.unwrap_or_default(),
        replicas: count(|status| status.replicas),
        updated_replicas: newest
            .and_then(|newest| rollout.sets.get(newest))
            .map_or(0, |set| set.set.status.replicas.max(0)),
        ready_replicas: count(|status| status.ready_replicas),
        available_replicas: available,
        preserved_failed_replicas: preserved,
        unavailable_replicas: unavailable(ordered, available),
        failed_machines: (!failed.is_empty()).then_some(failed),
        ..known.clone()
    };
    preservation(rollout, newest, &mut status);
    remove(&mut status, INVALID);
    let preserved_failed = if defect!(PreservedCountAsMissing) { 0 } else { preserved };
    let required = i64::from(rollout.replicas()) - rollout.bounds().unavailable;
    let (value, reason, message) = availability(available.into(), required, preserved_failed.into());
    put(&mut status, AVAILABLE, value, reason, message, rollout.now);
    status
}

/// The sum of numbers of machines. A negative one, which another client wrote, counts as zero; the sum is limited to what
/// the definition permits.
fn total(numbers: impl Iterator<Item = i32>) -> i32 {
    numbers.fold(0, |sum, number| sum.saturating_add(number.max(0)))
}

/// The number of machines that the sets should have and that are not available. During a scale-down more machines are
/// available than the sets should have.
fn unavailable(ordered: i32, available: i32) -> i32 {
    let missing = ordered.saturating_sub(available);
    if defect!(UnavailableBelowZero) {
        return missing;
    }
    missing.max(0)
}

/// The condition `Available`: its status, reason and message. Preserved failed machines lower the number that is required,
/// but do not replace the last available machine.
fn availability(available: i64, required: i64, preserved: i64) -> (&'static str, &'static str, &'static str) {
    if available >= required {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else if available > 0 && available >= required - preserved {
        (
            "True",
            "PreservedMachinesExcused",
            "Deployment has minimum availability, not counting its preserved failed machines.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    }
}

/// The fields that preservation uses: the template that was rolled out last, and the list of preserved failed machines.
fn preservation(rollout: &RolloutDraft, newest: Option<usize>, status: &mut MachineDeploymentStatus) {
    let deployment = &rollout.view.deployment;
    if status.rolled_out.is_empty() {
        let set = newest
            .and_then(|newest| rollout.sets.get(newest))
            .or(rollout.sets.last());
        let template = set.map_or(&deployment.spec.template, |set| &set.set.spec.template);
        status.rolled_out = template_hash(template);
    }
    let machines = rollout.view.machines.iter().filter(|machine| is_active(machine));
    let uids = machines.filter_map(|machine| machine.metadata.uid.as_deref()).collect();
    let known = deployment.status.observed_auto_preserve_failed_max;
    let swept = sweep(OwnersList::Deployment(deployment), known, &uids);
    let swept = if defect!(LoweredMaximumReleasesOldest) {
        swept.misjudged(&deployment.status.preservations)
    } else {
        swept
    };
    status.preservations = swept.entries;
    status.observed_auto_preserve_failed_max = swept.observed;
}

/// The condition `Progressing`, and the time until its deadline.
pub(super) fn progress(
    rollout: &RolloutDraft,
    newest: Option<usize>,
    status: &mut MachineDeploymentStatus,
) -> Option<Duration> {
    let now = rollout.now;
    let known = &rollout.view.deployment.status;
    let current = known.conditions.iter().find(|condition| condition.type_ == PROGRESSING);
    let what = match newest.and_then(|newest| rollout.sets.get(newest)) {
        Some(set) => format!("MachineSet {:?}", set.name()),
        None => format!("Machine Deployment {:?}", rollout.name()),
    };
    let complete = is_complete(rollout, status);
    let settled = current.is_some_and(|current| current.reason == DONE) && status.replicas == status.updated_replicas;
    if settled {
        // Machines that fail later do not restart the rollout.
    } else if complete {
        put(
            status,
            PROGRESSING,
            "True",
            DONE,
            &format!("{what} has successfully progressed."),
            now,
        );
    } else if current.is_none_or(|current| current.reason == DONE) {
        begun(rollout, newest, status);
    } else if is_progressing(known, status) {
        let text = format!("{what} is progressing.");
        progressed(status, &text, now);
    } else if deadline(rollout, status).is_some_and(|left| left.is_zero()) {
        put(
            status,
            PROGRESSING,
            "False",
            LATE,
            &format!("{what} has timed out progressing."),
            now,
        );
    }
    replica_failure(rollout, newest, status);
    deadline(rollout, status).filter(|left| !left.is_zero() && !complete)
}

/// Whether every machine exists, has the newest template and is available.
pub(super) fn is_complete(rollout: &RolloutDraft, status: &MachineDeploymentStatus) -> bool {
    has_settled(rollout, status) && status.available_replicas == rollout.replicas()
}

/// Whether the template was rolled out before, and all machines except preserved failed ones are available.
pub(super) fn lacks_only_preserved(rollout: &RolloutDraft, status: &MachineDeploymentStatus) -> bool {
    let rolled_out = status.rolled_out == template_hash(&rollout.deployment.spec.template);
    let accounted_for = i64::from(status.available_replicas) + rollout.kept_failed();
    rolled_out && has_settled(rollout, status) && accounted_for == i64::from(rollout.replicas())
}

/// Whether the number of machines is the desired one, and all have the newest template.
fn has_settled(rollout: &RolloutDraft, status: &MachineDeploymentStatus) -> bool {
    let wanted = rollout.replicas();
    let leftover = rollout.sets.iter().filter(|set| set.size() > 0).count() > usize::from(wanted > 0);
    status.updated_replicas == wanted && status.replicas == wanted && !leftover
}

fn is_progressing(old: &MachineDeploymentStatus, new: &MachineDeploymentStatus) -> bool {
    // In 64 bits: the old status may contain any number.
    let outdated = |status: &MachineDeploymentStatus| i64::from(status.replicas) - i64::from(status.updated_replicas);
    new.updated_replicas > old.updated_replicas
        || outdated(new) < outdated(old)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

/// The time until the progress deadline; `None`: there is none, or the rollout is complete, paused or past its
/// deadline.
fn deadline(rollout: &RolloutDraft, status: &MachineDeploymentStatus) -> Option<Duration> {
    let seconds = u64::try_from(rollout.deployment.spec.progress_deadline_seconds?).unwrap_or_default();
    let current = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == PROGRESSING)?;
    if [DONE, LATE, PAUSED].contains(&current.reason.as_str()) {
        return None;
    }
    let since = current.last_update_time.as_ref()?.0;
    let passed = Duration::try_from(rollout.now.duration_since(since)).unwrap_or_default();
    Some(Duration::from_secs(seconds).saturating_sub(passed))
}

/// Records pausing and resuming in `Progressing`, unless the rollout is past its deadline.
pub(super) fn pause(rollout: &RolloutDraft, status: &mut MachineDeploymentStatus) {
    let reason = |status: &MachineDeploymentStatus| {
        let current = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == PROGRESSING);
        current.map(|current| current.reason.clone()).unwrap_or_default()
    };
    let current = reason(status);
    if current == LATE {
        return;
    }
    if rollout.deployment.spec.paused {
        put(
            status,
            PROGRESSING,
            "Unknown",
            PAUSED,
            "Deployment is paused",
            rollout.now,
        );
    } else if current == PAUSED {
        put(
            status,
            PROGRESSING,
            "Unknown",
            RESUMED,
            "Deployment is resumed",
            rollout.now,
        );
    }
}

/// Records the start of a rollout; its deadline counts from here.
fn begun(rollout: &RolloutDraft, newest: Option<usize>, status: &mut MachineDeploymentStatus) {
    let Some(set) = newest.and_then(|newest| rollout.sets.get(newest)) else {
        return;
    };
    let name = set.name();
    let (reason, text) = if set.machines.is_empty() {
        ("NewMachineSetCreated", format!("Created new machine set {name:?}"))
    } else {
        ("FoundNewMachineSet", format!("Found new machine set {name:?}"))
    };
    put(status, PROGRESSING, "True", reason, &text, rollout.now);
}

/// Records that the set of a new template could not be created.
pub(super) fn not_created(rollout: &RolloutDraft, status: &mut MachineDeploymentStatus, error: &str) {
    let text = format!("Failed to create new machine set {error}");
    put(
        status,
        PROGRESSING,
        "False",
        "MachineSetCreateError",
        &text,
        rollout.now,
    );
}

/// The status of a deployment with an invalid spec.
pub(super) fn invalid(deployment: &MachineDeployment, message: &str, now: Timestamp) -> MachineDeploymentStatus {
    let mut status = MachineDeploymentStatus {
        observed_generation: deployment.metadata.generation.unwrap_or_default(),
        ..deployment.status.clone()
    };
    let same = status
        .conditions
        .iter()
        .any(|known| known.type_ == INVALID && known.message == message);
    if !same {
        remove(&mut status, INVALID);
        put(&mut status, INVALID, "True", "InvalidSpec", message, now);
    }
    status
}

fn replica_failure(rollout: &RolloutDraft, newest: Option<usize>, status: &mut MachineDeploymentStatus) {
    let of = |position: usize| {
        let conditions = rollout.sets.get(position).map(|set| set.set.status.conditions.iter());
        conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == REPLICA_FAILURE)
    };
    let failure = newest.and_then(of).or_else(|| (0..rollout.sets.len()).find_map(of));
    let Some(failure) = failure else {
        return remove(status, REPLICA_FAILURE);
    };
    let copied = MachineDeploymentCondition {
        type_: failure.type_.clone(),
        status: failure.status.clone(),
        last_update_time: failure.last_transition_time.clone(),
        last_transition_time: failure.last_transition_time.clone(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
    };
    if !status.conditions.contains(&copied) {
        remove(status, REPLICA_FAILURE);
        status.conditions.push(copied);
    }
}

/// The condition `PreservationSuspended`: during a rollout failing machines are replaced and not preserved. It exists where
/// machines would be preserved without a request, and during each rollout that is past its deadline.
pub(super) fn preservation_suspended(rollout: &RolloutDraft, status: &mut MachineDeploymentStatus) {
    let late = status
        .conditions
        .iter()
        .any(|known| known.type_ == PROGRESSING && known.reason == LATE);
    let deployment = &rollout.view.deployment;
    let automatic = OwnersList::Deployment(deployment).maximum() > 0;
    if !is_rolling(&deployment.spec, &status.rolled_out) || !late && !automatic {
        return remove(status, SUSPENDED);
    }
    let (reason, message) = if late {
        (
            "RolloutTimedOut",
            "The rollout has timed out progressing. Until it completes or is rolled back, failing machines are replaced \
             and not preserved.",
        )
    } else {
        (
            "RolloutInProgress",
            "Failing machines are replaced and not preserved until the rollout is complete.",
        )
    };
    put(status, SUSPENDED, "True", reason, message, rollout.now);
}

fn remove(status: &mut MachineDeploymentStatus, type_: &str) {
    status.conditions.retain(|known| known.type_ != type_);
}

/// Sets a condition, unless its status and reason are the same. The transition time changes only with the status.
pub(crate) fn put(
    status: &mut MachineDeploymentStatus,
    type_: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let known = status.conditions.iter().find(|known| known.type_ == type_).cloned();
    if known
        .as_ref()
        .is_some_and(|known| known.status == value && known.reason == reason)
    {
        return;
    }
    let same = known.filter(|known| known.status == value);
    remove(status, type_);
    status.conditions.push(MachineDeploymentCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        last_update_time: Some(stamp(now)),
        last_transition_time: same
            .and_then(|known| known.last_transition_time)
            .or_else(|| Some(stamp(now))),
        reason: reason.to_owned(),
        message: message.to_owned(),
    });
}

/// Records progress of the rollout; the deadline counts from here.
fn progressed(status: &mut MachineDeploymentStatus, message: &str, now: Timestamp) {
    put(status, PROGRESSING, "True", "MachineSetUpdated", message, now);
    let current = status.conditions.iter_mut().find(|known| known.type_ == PROGRESSING);
    if let Some(current) = current {
        message.clone_into(&mut current.message);
        current.last_update_time = Some(stamp(now));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::enough(3, 3, 0, "True", "MinimumReplicasAvailable")]
    #[case::too_few(2, 3, 0, "False", "MinimumReplicasUnavailable")]
    #[case::one_is_preserved(2, 3, 1, "True", "PreservedMachinesExcused")]
    #[case::one_is_preserved_and_one_missing(1, 3, 1, "False", "MinimumReplicasUnavailable")]
    #[case::all_are_preserved(0, 3, 3, "False", "MinimumReplicasUnavailable")]
    #[case::the_only_one_is_preserved(0, 1, 1, "False", "MinimumReplicasUnavailable")]
    #[case::none_is_required(0, 0, 0, "True", "MinimumReplicasAvailable")]
    fn preserved_machines_are_excused_unless_none_is_available(
        #[case] available: i64,
        #[case] required: i64,
        #[case] preserved: i64,
        #[case] value: &str,
        #[case] reason: &str,
    ) {
        let condition = availability(available, required, preserved);
        assert_eq!((condition.0, condition.1), (value, reason));
    }
}
