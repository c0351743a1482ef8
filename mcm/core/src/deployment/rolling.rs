//! RollingUpdate: creates new machines as far as the surge allows, and deletes old ones as far as availability allows.

use std::collections::VecDeque;
use std::sync::Arc;

use mcm_api::Machine;

use super::defects;
use super::rollout_draft::RolloutDraft;
use super::surge::{next_size, total};
use super::{Reason, revision};
use crate::remediation::is_unwanted;

/// One step of a rolling update. Returns whether a size changed.
pub(super) fn roll(rollout: &mut RolloutDraft, newest: usize) -> bool {
    let old = revision::old_sets(rollout, Some(newest));
    grow(rollout, newest) || shrink(rollout, newest, &old)
}

/// Grows or shrinks the newest set towards its desired size. Returns whether the size changed.
pub(super) fn grow(rollout: &mut RolloutDraft, newest: usize) -> bool {
    let Some(set) = rollout.sets.get(newest) else {
        return false;
    };
    let (name, from) = (set.name().to_owned(), set.replicas());
    let to = next_size(rollout, from);
    if to == from {
        return false;
    }
    let (total, limit) = (total(rollout), rollout.limit());
    let reason = Reason::Grown {
        set: name,
        from,
        to,
        total,
        limit,
    };
    rollout.resize(newest, to, reason)
}

/// An old set while its new size is computed: the machines that stay, next candidate for deletion first.
struct ShrinkingSet {
    position: usize,
    retained: VecDeque<Arc<Machine>>,
    size: i32,
}

impl ShrinkingSet {
    /// The machine that is deleted next; `None`: it does not exist yet.
    fn next(&self) -> Option<&Arc<Machine>> {
        let exists = i64::from(self.size) <= self.retained.len() as i64;
        self.retained.front().filter(|_| exists)
    }

    /// Reduces the size by one. Returns the machine that is deleted, if it exists already.
    fn pop(&mut self) -> Option<Arc<Machine>> {
        let exists = self.next().is_some();
        self.size -= 1;
        if exists { self.retained.pop_front() } else { None }
    }
}

/// Shrinks the old sets as far as availability allows. Returns whether a size changed.
pub(super) fn shrink(rollout: &mut RolloutDraft, newest: usize, old: &[usize]) -> bool {
    let now = rollout.now;
    let available: i64 = rollout.sets.iter().map(|set| set.serving(now)).sum();
    let ordered: i64 = rollout.sets.iter().map(|set| i64::from(set.replicas())).sum();
    // Machines that a health check wants replaced may wait for those that are cleaned up here.
    let missing = rollout.sets.get(newest).map_or(0, |set| {
        let requests = if defect!(RequestsCountAsMissing) {
            0
        } else {
            set.retained_requests()
        };
        i64::from(set.replicas()) - set.serving(now) - requests
    });
    let (mut available, mut ordered, missing) =
        if defect!(DeletedMachinesCountAsAvailable | BootingMachinesCountAsAvailable) {
            defects::miscounted(rollout, newest, (available, ordered, missing))
        } else {
            (available, ordered, missing)
        };
    // Preserved failed machines lower the required number of available machines until they are deleted. In old sets
    // they are deleted after the other failed machines. In the newest set (preserved during a pause or before a
    // rollback) they stay until their expiry.
    let (replicas, unavailable) = (i64::from(rollout.replicas()), rollout.bounds().unavailable);
    let required = |kept: i64| (replicas - unavailable - kept).max(0);
    let mut kept = rollout.kept_failed();
    let least = required(kept);
    let available_before = available;
    if ordered - least - missing <= 0 {
        return false;
    }
    let mut shrinking: Vec<ShrinkingSet> = old
        .iter()
        .filter_map(|position| {
            let set = rollout.sets.get(*position).filter(|set| set.replicas() > 0)?;
            let retained = set.retained().into_iter().cloned().collect();
            Some(ShrinkingSet {
                position: *position,
                retained,
                size: set.replicas(),
            })
        })
        .collect();
    let serves = |rollout: &RolloutDraft, position: usize, machine: &Machine| {
        let set = rollout.sets.get(position);
        set.is_some_and(|set| set.serves(machine, now))
    };

    // First machines that do not serve: their deletion does not reduce availability.
    for set in &mut shrinking {
        let is_next_idle =
            |set: &ShrinkingSet| set.next().is_none_or(|machine| !serves(rollout, set.position, machine));
        while ordered - required(kept) - missing > 0 && set.size > 0 && is_next_idle(set) {
            kept -= i64::from(set.pop().is_some_and(|machine| machine.status.is_kept_failed()));
            ordered -= 1;
        }
    }
    let cleaned: Vec<i32> = shrinking.iter().map(|set| set.size).collect();
    // Then as many serving machines as are available beyond the required number: those of all sets that a health check
    // wants replaced before others.
    for only_unwanted in [true, false] {
        let may_go = |set: &ShrinkingSet| !only_unwanted || set.next().is_some_and(|machine| is_unwanted(machine));
        for set in &mut shrinking {
            while available > required(kept) && set.size > 0 && may_go(set) {
                let Some(machine) = set.pop() else { continue };
                available -= i64::from(serves(rollout, set.position, &machine));
                kept -= i64::from(machine.status.is_kept_failed());
            }
        }
    }
    let mut changed = false;
    for (set, cleaned) in shrinking.iter().zip(cleaned) {
        let Some((name, from)) = rollout
            .sets
            .get(set.position)
            .map(|set| (set.name().to_owned(), set.replicas()))
        else {
            continue;
        };
        let to = set.size;
        if to == from {
            continue;
        }
        let reason = if to == cleaned {
            Reason::CleanedUp { set: name, from, to }
        } else {
            Reason::Shrunk {
                set: name,
                from,
                to,
                available: available_before,
                least,
            }
        };
        changed |= rollout.resize(set.position, to, reason);
    }
    changed
}
