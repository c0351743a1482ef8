//! Why a set deletes a machine, for events and logs.

use std::fmt;

use mcm_api::Machine;

use super::View;
use crate::failure::Failure;
use crate::template::same_template;

/// The cause of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The number of replicas was reduced.
    ScaleDown,
    /// Machines of a newer template replace those of the set.
    Rollout,
    /// More machines exist than the spec ever required.
    Overshoot,
    /// cluster-autoscaler marked the machine.
    ChosenByAutoscaler,
    /// The machine was unhealthy for too long.
    FailedHealthCheck,
    /// The machine did not join in time.
    FailedToJoin,
    /// Its VM could not be created.
    FailedCreation,
    /// Its update in place failed.
    FailedUpdate,
    /// Another failure.
    Failed,
    /// The set is being deleted.
    SetDeleted,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScaleDown => "scale-down",
            Self::Rollout => "rollout",
            Self::Overshoot => "overshoot",
            Self::ChosenByAutoscaler => "chosen by cluster-autoscaler",
            Self::FailedHealthCheck => "failed health check",
            Self::FailedToJoin => "failed to join",
            Self::FailedCreation => "failed creation",
            Self::FailedUpdate => "failed update in place",
            Self::Failed => "failed",
            Self::SetDeleted => "set deleted",
        })
    }
}

/// Why the set has more machines than it needs. The status is written when no surplus is left, so a surplus for a spec that
/// it covers did not come from a smaller size.
pub(super) fn of_surplus(view: &View) -> Cause {
    let set = &view.set;
    let is_outdated = view
        .deployment
        .as_ref()
        .is_some_and(|deployment| !same_template(&set.spec.template, &deployment.spec.template));
    let is_observed = set.metadata.generation == Some(set.status.observed_generation);
    match (is_outdated, is_observed) {
        (true, _) => Cause::Rollout,
        (false, true) => Cause::Overshoot,
        (false, false) => Cause::ScaleDown,
    }
}

/// Why the machine failed.
pub(super) fn of_failure(machine: &Machine) -> Cause {
    match Failure::of(machine) {
        Failure::Unhealthy => Cause::FailedHealthCheck,
        Failure::NeverJoined => Cause::FailedToJoin,
        Failure::NotCreated => Cause::FailedCreation,
        Failure::NotUpdated => Cause::FailedUpdate,
        Failure::Unknown => Cause::Failed,
    }
}
