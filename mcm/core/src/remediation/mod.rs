//! Requests that the owner of a machine replaces it, as the health check writes them and as its owners read them.

mod annotations;
mod rank;

use mcm_api::Machine;

pub use annotations::{is_paused, is_skipped, must_remediate};
pub use rank::Rank;

/// The reason of `OwnerRemediated` while a rollout replaces the machine.
pub const CANNOT_BE_REMEDIATED: &str = "CannotBeRemediated";

/// Whether a health check wants the machine replaced, so that a scale-down or a rollout that deletes one machine of its
/// set prefers this one.
pub fn is_unwanted(machine: &Machine) -> bool {
    machine.status.is_remediation_requested() && !is_skipped(&machine.metadata)
}
