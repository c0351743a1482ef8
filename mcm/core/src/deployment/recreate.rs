//! Recreate: all old machines are deleted, and once the last of them is gone, new ones are created.

use super::rollout_draft::RolloutDraft;
use super::{Reason, revision, surge};

/// Scales the old sets to zero. Returns whether none of their machines is left.
pub(super) fn empty(rollout: &mut RolloutDraft, newest: Option<usize>) -> bool {
    let old = revision::old_sets(rollout, newest);
    let mut left = false;
    for position in old {
        let Some(set) = rollout.sets.get(position) else {
            continue;
        };
        left |= set.size() > 0;
        if set.replicas() > 0 {
            let reason = Reason::Emptied(set.name().to_owned());
            rollout.resize(position, 0, reason);
        }
    }
    !left
}

/// Scales the newest set up. Its own machines that are being deleted count: they exist if the deployment returned to an
/// earlier template.
pub(super) fn refill(rollout: &mut RolloutDraft, newest: usize) {
    let Some(set) = rollout.sets.get(newest) else { return };
    let (set, now) = (set.name().to_owned(), set.replicas());
    let to = surge::next_size(rollout, now);
    if to != now {
        rollout.resize(newest, to, Reason::Refilled { set, to });
    }
}
