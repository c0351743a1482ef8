//! Defects that replace rules about one deployment.

use std::sync::Arc;

use mcm_api::Machine;

use super::rollout_draft::{RolloutDraft, SetDraft};

/// Wrong counts of the available machines, the desired ones, and those missing from the newest set.
pub(super) fn miscounted(
    rollout: &RolloutDraft,
    newest: usize,
    (available, ordered, missing): (i64, i64, i64),
) -> (i64, i64, i64) {
    if defect!(DeletedMachinesCountAsAvailable) {
        let available_anywhere = rollout
            .sets
            .iter()
            .map(|set| set.available_of(i64::MAX, rollout.now))
            .sum();
        let active = rollout.sets.iter().map(SetDraft::size_without_leaving).sum();
        (available_anywhere, active, missing)
    } else if defect!(BootingMachinesCountAsAvailable) {
        let is_booting = |machine: &&Arc<Machine>| machine.status.current_status.phase == Some(mcm_api::Phase::Pending);
        let booting = rollout
            .sets
            .get(newest)
            .map_or(0, |set| set.machines.iter().filter(is_booting).count()) as i64;
        (available + booting, ordered, missing - booting)
    } else {
        (available, ordered, missing)
    }
}
