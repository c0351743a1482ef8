//! RollingUpdate: new machines as far as the surge allows, old ones go as far as availability allows.

use std::collections::VecDeque;
use std::sync::Arc;

use mcm_api::Machine;

use super::defects;
use super::rollout_draft::RolloutDraft;
use super::surge::{next_size, total};
use super::{Reason, revision};

/// One step of a rolling update. Answers whether a size changed.
pub(super) fn roll(rollout: &mut RolloutDraft, newest: usize) -> bool {
    let old = revision::old_ones(rollout, Some(newest));
    grow(rollout, newest) || shrink(rollout, newest, &old)
}

/// Brings the newest set nearer to its size.
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

/// Old machines that stay, in the order in which they go, and how many of them are to go.
struct Leaving {
    position: usize,
    staying: VecDeque<Arc<Machine>>,
    size: i32,
}

impl Leaving {
    /// Lets the next one go; answers it if it is there already.
    fn pop(&mut self) -> Option<Arc<Machine>> {
        let there = self.staying.len() as i64;
        let is_there = i64::from(self.size) <= there;
        self.size -= 1;
        if is_there { self.staying.pop_front() } else { None }
    }
}

/// Takes old machines away as far as availability allows. Answers whether a size changed.
pub(super) fn shrink(rollout: &mut RolloutDraft, newest: usize, old: &[usize]) -> bool {
    let now = rollout.now;
    let available: i64 = rollout.sets.iter().map(|set| set.serving(now)).sum();
    let ordered: i64 = rollout.sets.iter().map(|set| i64::from(set.replicas())).sum();
    let missing = rollout
        .sets
        .get(newest)
        .map_or(0, |set| i64::from(set.replicas()) - set.serving(now));
    let (mut available, mut ordered, missing) =
        if defect!(DeletedMachinesCountAsAvailable | BootingMachinesCountAsAvailable) {
            defects::miscounted(rollout, newest, (available, ordered, missing))
        } else {
            (available, ordered, missing)
        };
    // Failed machines that are kept lower what is enough until they go: in old sets after those that nobody keeps; in the
    // newest one, kept in a pause or before a rollback, they stay to their end.
    let (replicas, unavailable) = (i64::from(rollout.replicas()), rollout.bounds().unavailable);
    let enough = |kept: i64| (replicas - unavailable - kept).max(0);
    let mut kept = rollout.kept_failed();
    let least = enough(kept);
    let told = available;
    if ordered - least - missing <= 0 {
        return false;
    }
    let mut leaving: Vec<Leaving> = old
        .iter()
        .filter_map(|position| {
            let set = rollout.sets.get(*position).filter(|set| set.replicas() > 0)?;
            let staying = set.staying().into_iter().cloned().collect();
            Some(Leaving {
                position: *position,
                staying,
                size: set.replicas(),
            })
        })
        .collect();
    let serves = |rollout: &RolloutDraft, position: usize, machine: &Machine| {
        let set = rollout.sets.get(position);
        set.is_some_and(|set| set.serves(machine, now))
    };

    // First those that serve nobody: they would be missed by none.
    for set in &mut leaving {
        let next =
            |set: &Leaving| set.size as usize > set.staying.len() || !serves(rollout, set.position, &set.staying[0]);
        while ordered - enough(kept) - missing > 0 && set.size > 0 && next(set) {
            kept -= i64::from(set.pop().is_some_and(|machine| machine.status.is_kept_failed()));
            ordered -= 1;
        }
    }
    let cleaned: Vec<i32> = leaving.iter().map(|set| set.size).collect();
    // Then as many others as are available beyond what is enough.
    for set in &mut leaving {
        while available > enough(kept) && set.size > 0 {
            let Some(machine) = set.pop() else { continue };
            available -= i64::from(serves(rollout, set.position, &machine));
            kept -= i64::from(machine.status.is_kept_failed());
        }
    }
    let mut changed = false;
    for (set, cleaned) in leaving.iter().zip(cleaned) {
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
                available: told,
                least,
            }
        };
        changed |= rollout.resize(set.position, to, reason);
    }
    changed
}
