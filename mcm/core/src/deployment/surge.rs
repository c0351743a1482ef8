//! The size of the newest set that the surge allows.

use super::rollout_draft::{RolloutDraft, SetDraft};

/// Machines of all sets: existing ones, also those that are being deleted, and those that are still to be created.
pub(super) fn total(rollout: &RolloutDraft) -> i64 {
    let of = if defect!(TerminatingMachinesTakeNoRoom) {
        SetDraft::size_without_leaving
    } else if defect!(SurgeIgnoresOrderedMachines) {
        |set: &SetDraft| set.machines.len() as i64
    } else {
        SetDraft::size
    };
    rollout.sets.iter().map(of).sum()
}

/// The initial size of a set that does not exist yet.
pub(super) fn first_size(rollout: &RolloutDraft) -> i32 {
    if rollout.is_manual() {
        return 0;
    }
    more(rollout, 0)
}

/// The next size of the newest set, which has `now` machines. Shrinking is immediate; growth is limited by the surge.
pub(super) fn next_size(rollout: &RolloutDraft, now: i32) -> i32 {
    if now > rollout.replicas() {
        rollout.replicas()
    } else {
        more(rollout, now)
    }
}

/// The size to which the newest set, which has `now` machines, can grow within the surge.
fn more(rollout: &RolloutDraft, now: i32) -> i32 {
    let wanted = i64::from(rollout.replicas());
    let room = (rollout.limit() - total(rollout)).min(wanted - i64::from(now)).max(0);
    now.saturating_add(i32::try_from(room).unwrap_or(i32::MAX))
}
