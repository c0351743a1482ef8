//! Recreate: all old machines go, and when the last of them is gone, new ones come.

use super::rollout_draft::RolloutDraft;
use super::{Reason, revision, surge};

/// Empties the old sets. Answers whether none of their machines is left.
pub(super) fn empty(rollout: &mut RolloutDraft, newest: Option<usize>) -> bool {
    let old = revision::old_ones(rollout, newest);
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

/// Gives the newest set its size, as far as its own machines are gone that were told to go: a template may come back while
/// they do.
pub(super) fn refill(rollout: &mut RolloutDraft, newest: usize) {
    let Some(set) = rollout.sets.get(newest) else { return };
    let (set, now) = (set.name().to_owned(), set.replicas());
    let to = surge::next_size(rollout, now);
    if to != now {
        rollout.resize(newest, to, Reason::Refilled { set, to });
    }
}
