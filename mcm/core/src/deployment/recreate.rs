//! Recreate: all old machines go, and when the last of them is gone, new ones come.

use super::desk::Desk;
use super::{Reason, revision};

/// Empties the old sets. Answers whether none of their machines is left.
pub(super) fn empty(desk: &mut Desk, newest: Option<usize>) -> bool {
    let old = revision::old_ones(desk, newest);
    let mut left = false;
    for position in old {
        let Some(set) = desk.sets.get(position) else { continue };
        left |= set.size() > 0;
        if set.replicas() > 0 {
            let reason = Reason::Emptied(set.name().to_owned());
            desk.resize(position, 0, reason);
        }
    }
    !left
}

/// Gives the newest set its size.
pub(super) fn refill(desk: &mut Desk, newest: usize) {
    let to = desk.replicas();
    let Some(set) = desk.sets.get(newest).filter(|set| set.replicas() != to) else {
        return;
    };
    let set = set.name().to_owned();
    desk.resize(newest, to, Reason::Refilled { set, to });
}
