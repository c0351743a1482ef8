//! A set's status, computed from its machines.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::LastOperation;
use mcm_api::set::{MachineSetCondition, MachineSetStatus, MachineSummary};
use mcm_api::{Machine, MachineSet, Phase, State};

use super::View;
use super::rank::is_active;
use crate::ownership::controller;
use crate::preservation::{OwnersList, sweep};

/// The condition of a set whose machines cannot be created or deleted.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The condition of an object with an invalid spec, which is not reconciled.
pub(crate) const INVALID: &str = "Invalid";

/// Whether a machine is ready: Running, and not being deleted.
pub(crate) fn is_ready(machine: &Machine) -> bool {
    is_active(machine) && machine.status.current_status.phase == Some(Phase::Running)
}

/// Whether a machine is available: Running or Available for at least `minReadySeconds`, and not being deleted.
///
/// # Errors
/// The time until the machine becomes available; `None`: it does not by time alone.
pub fn is_available(machine: &Machine, min_ready_seconds: i32, now: Timestamp) -> Result<(), Option<Duration>> {
    let current = &machine.status.current_status;
    if !is_active(machine) || !matches!(current.phase, Some(Phase::Running | Phase::Available)) {
        return Err(None);
    }
    let wanted = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or_default());
    let since = current.since(now);
    let for_now = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match wanted.checked_sub(for_now) {
        None | Some(Duration::ZERO) => Ok(()),
        Some(left) => Err(Some(left)),
    }
}

/// How long a machine of the set must be ready to count as available.
pub(crate) fn min_ready_seconds(set: &MachineSet, honoured: bool) -> i32 {
    if honoured { set.spec.min_ready_seconds } else { 0 }
}

/// The status, and the time after which it changes without an event.
pub(super) fn status(view: &View, claimed: &[Arc<Machine>], now: Timestamp) -> (MachineSetStatus, Option<Duration>) {
    let set = &view.set;
    let count = |wanted: &dyn Fn(&Machine) -> bool| claimed.iter().filter(|machine| wanted(machine)).count() as i32;
    let preserved = |machine: &Machine| machine.status.is_preserved();
    let failed = |machine: &Machine| machine.status.current_status.phase == Some(Phase::Failed);
    let labelled = |machine: &Machine| is_labelled(set, machine);
    let min_ready_seconds = min_ready_seconds(set, view.honours_min_ready_seconds);
    let available = |machine: &Machine| is_available(machine, min_ready_seconds, now).is_ok();
    let mut summaries: Vec<MachineSummary> = claimed
        .iter()
        .filter(|machine| !(failed(machine) && preserved(machine)) || defect!(PreservedCountAsMissing))
        .filter_map(|machine| summary(set, machine))
        .collect();
    summaries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut status = MachineSetStatus {
        replicas: claimed.len() as i32,
        fully_labeled_replicas: count(&labelled),
        ready_replicas: count(&is_ready),
        available_replicas: count(&available),
        preserved_failed_replicas: count(&|machine| failed(machine) && preserved(machine)),
        observed_generation: set.metadata.generation.unwrap_or_default(),
        failed_machines: (!summaries.is_empty()).then_some(summaries),
        ..set.status.clone()
    };
    count_preserved(view, claimed, &mut status);
    remove(&mut status, INVALID);
    replica_failure(view, claimed, &mut status, now);
    let waits = claimed
        .iter()
        .filter_map(|machine| is_available(machine, min_ready_seconds, now).err().flatten());
    (status, waits.min())
}

/// Updates the list of preserved failed machines of a standalone set. For the set of a deployment, the deployment has
/// the list.
fn count_preserved(view: &View, claimed: &[Arc<Machine>], status: &mut MachineSetStatus) {
    let set = &view.set;
    if controller(&set.metadata).is_some() {
        return;
    }
    let active = claimed.iter().filter(|machine| is_active(machine));
    let uids = active.filter_map(|machine| machine.metadata.uid.as_deref()).collect();
    let swept = sweep(
        OwnersList::Set(set),
        set.status.observed_auto_preserve_failed_max,
        &uids,
    );
    let swept = if defect!(LoweredMaximumReleasesOldest) {
        swept.misjudged(&set.status.preservations)
    } else {
        swept
    };
    status.preservations = swept.entries;
    status.observed_auto_preserve_failed_max = swept.observed;
}

/// The status of a set with an invalid spec.
pub(super) fn invalid(set: &MachineSet, message: &str, now: Timestamp) -> MachineSetStatus {
    let mut status = MachineSetStatus {
        observed_generation: set.metadata.generation.unwrap_or_default(),
        ..set.status.clone()
    };
    put(&mut status, INVALID, "InvalidSpec", message, now);
    status
}

/// `status` with the time of its change, if it differs from the set's.
pub(super) fn changed(set: &MachineSet, status: MachineSetStatus, now: Timestamp) -> Option<MachineSetStatus> {
    if status == set.status {
        return None;
    }
    let last_operation = LastOperation {
        last_update_time: Some(stamp(now)),
        ..LastOperation::default()
    };
    Some(MachineSetStatus {
        last_operation: Some(last_operation),
        ..status
    })
}

fn replica_failure(view: &View, claimed: &[Arc<Machine>], status: &mut MachineSetStatus, now: Timestamp) {
    let wanted = usize::try_from(view.set.spec.replicas).unwrap_or_default();
    let active = claimed.iter().filter(|machine| is_active(machine)).count();
    let reason = if active < wanted {
        "FailedCreate"
    } else {
        "FailedDelete"
    };
    match &view.failure {
        Some(message) => put(status, REPLICA_FAILURE, reason, message, now),
        None if active != wanted => {}
        None => remove(status, REPLICA_FAILURE),
    }
}

/// Sets a condition to True. A condition with the same reason stays unchanged, with its message and time.
fn put(status: &mut MachineSetStatus, type_: &str, reason: &str, message: &str, now: Timestamp) {
    let same = |known: &MachineSetCondition| known.type_ == type_ && known.status == "True" && known.reason == reason;
    if status
        .conditions
        .iter()
        .any(|known| same(known) && (type_ != INVALID || known.message == message))
    {
        return;
    }
    remove(status, type_);
    status.conditions.push(MachineSetCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(stamp(now)),
        reason: reason.to_owned(),
        message: message.to_owned(),
    });
}

fn remove(status: &mut MachineSetStatus, type_: &str) {
    status.conditions.retain(|known| known.type_ != type_);
}

fn is_labelled(set: &MachineSet, machine: &Machine) -> bool {
    let labels = machine.metadata.labels.as_ref();
    let wanted = set.spec.template.metadata.labels.iter().flatten();
    wanted
        .into_iter()
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

fn summary(set: &MachineSet, machine: &Machine) -> Option<MachineSummary> {
    let last = machine.status.last_operation.as_ref()?;
    (last.state == Some(State::Failed)).then(|| MachineSummary {
        name: machine.metadata.name.clone().unwrap_or_default(),
        provider_id: machine.spec.provider_id.clone(),
        last_operation: Some(last.clone()),
        owner_ref: set.metadata.name.clone().unwrap_or_default(),
    })
}

/// The time in whole seconds, as it is written.
pub(crate) fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
