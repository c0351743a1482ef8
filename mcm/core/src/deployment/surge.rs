//! How large the newest set may be, as far as the surge allows.

use super::rollout_draft::{RolloutDraft, SetDraft};

/// Machines of all sets: those that are there, being deleted or not, and those that are ordered.
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

/// How many machines a set that does not exist yet starts with.
pub(super) fn first_size(rollout: &RolloutDraft) -> i32 {
    if rollout.is_manual() {
        return 0;
    }
    more(rollout, 0)
}

/// The next size of the newest set, which has `now` machines: smaller at once, larger as there is room.
pub(super) fn next_size(rollout: &RolloutDraft, now: i32) -> i32 {
    if now > rollout.replicas() {
        rollout.replicas()
    } else {
        more(rollout, now)
    }
}

/// The size of the newest set, which has `now` machines, as far as the surge allows.
fn more(rollout: &RolloutDraft, now: i32) -> i32 {
    let wanted = i64::from(rollout.replicas());
    let room = (rollout.limit() - total(rollout)).min(wanted - i64::from(now)).max(0);
    now.saturating_add(i32::try_from(room).unwrap_or(i32::MAX))
}
