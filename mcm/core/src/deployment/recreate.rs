//! Recreate: all old machines go, and when the last of them is gone, new ones come.

use super::desk::Desk;
use super::{Reason, revision, rolling};

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

/// Gives the newest set its size, as far as its own machines are gone that were told to go: a template may come back while
/// they do.
pub(super) fn refill(desk: &mut Desk, newest: usize) {
    let Some(set) = desk.sets.get(newest) else { return };
    let (set, now) = (set.name().to_owned(), set.replicas());
    let to = rolling::next_size(desk, now);
    if to != now {
        desk.resize(newest, to, Reason::Refilled { set, to });
    }
}
