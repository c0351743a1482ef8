//! Scaling: the sets follow a changed number of replicas, also during a rollout.

use std::cmp::Reverse;
use std::sync::Arc;

use mcm_api::{Machine, PreservedBy, keys};

use super::bounds::{IN_PLACE_UPDATE, ROLLING_UPDATE};
use super::retained::RetainedMachines;
use super::rollout_draft::{RolloutDraft, SetDraft};
use super::{Reason, revision};

/// Whether the sets were sized for another number of replicas. If no set has the newest template, the rollout comes
/// first, unless it is paused.
pub(super) fn is_due(rollout: &RolloutDraft, newest: Option<usize>) -> bool {
    let paused = rollout.deployment.spec.paused;
    if newest.is_none() && !paused {
        return false;
    }
    let wanted = rollout.replicas();
    let active = active(rollout);
    if active.is_empty() {
        return wanted > 0 && paused;
    }
    active
        .iter()
        .filter_map(|position| rollout.sets.get(*position))
        .any(|set| {
            let recorded = set.annotation(keys::DESIRED_REPLICAS_ANNOTATION);
            recorded
                .and_then(|text| text.parse::<i32>().ok())
                .is_some_and(|recorded| recorded != wanted)
        })
}

fn active(rollout: &RolloutDraft) -> Vec<usize> {
    (0..rollout.sets.len())
        .filter(|position| rollout.sets[*position].replicas() > 0)
        .collect()
}

/// Sizes the sets for the deployment's replicas.
pub(super) fn scale(rollout: &mut RolloutDraft, newest: Option<usize>) {
    let active = active(rollout);
    let wanted = rollout.replicas();
    let only = active
        .first()
        .copied()
        .or(newest)
        .or_else(|| rollout.sets.len().checked_sub(1));
    if let Some(only) = only.filter(|only| active.len() <= 1 && newest.is_none_or(|newest| newest == *only)) {
        let from = rollout.sets.get(only).map_or(0, SetDraft::replicas);
        let to = from
            .saturating_add(i32::try_from(room(rollout)).unwrap_or(i32::MAX))
            .min(wanted);
        if to < wanted {
            grow_partly(rollout, only, to)
        } else {
            set_size(rollout, only, wanted)
        }
        return;
    }
    if let Some(newest) = newest.filter(|newest| is_saturated(rollout, *newest)) {
        for position in active.into_iter().filter(|position| *position != newest) {
            set_size(rollout, position, 0);
        }
        return;
    }
    let sizes = match rollout.deployment.spec.strategy.type_.as_str() {
        ROLLING_UPDATE | "" => proportional(rollout, &active, newest),
        _ if defect!(SizeIgnoredWithSeveralSets) => return,
        _ => in_order(rollout, &active, newest, i64::from(wanted)),
    };
    for (position, size) in sizes {
        set_size(rollout, position, size);
    }
}

/// How many machines may be added. Surplus machines that are not deleted yet count.
fn room(rollout: &RolloutDraft) -> i64 {
    let existing: i64 = rollout.sets.iter().map(SetDraft::size_without_leaving).sum();
    (rollout.limit() - existing).max(0)
}

/// A step towards the desired size. The set keeps its record of the old deployment size, so that scaling continues.
fn grow_partly(rollout: &mut RolloutDraft, position: usize, to: i32) {
    let recorded = rollout
        .sets
        .get(position)
        .and_then(|set| set.annotation(keys::DESIRED_REPLICAS_ANNOTATION));
    let recorded = recorded.map(str::to_owned);
    if rollout.sets.get(position).is_some_and(|set| set.replicas() < to) {
        set_size(rollout, position, to);
    }
    if let (Some(set), Some(recorded)) = (rollout.sets.get_mut(position), recorded) {
        set.annotate(keys::DESIRED_REPLICAS_ANNOTATION, recorded);
    }
}

fn set_size(rollout: &mut RolloutDraft, position: usize, to: i32) {
    let Some(set) = rollout.sets.get(position) else { return };
    let (set, from) = (set.name().to_owned(), set.replicas());
    rollout.resize(position, to, Reason::Scaled { set, from, to });
}

fn is_saturated(rollout: &RolloutDraft, newest: usize) -> bool {
    let wanted = rollout.replicas();
    rollout.sets.get(newest).is_some_and(|set| {
        set.replicas() == wanted
            && set.annotation(keys::DESIRED_REPLICAS_ANNOTATION) == Some(wanted.to_string().as_str())
            && set.available(rollout.now) == i64::from(wanted)
    })
}

/// Only the newest set grows. All sets shrink by their share; the remainder of rounding is taken from the largest.
fn proportional(rollout: &RolloutDraft, active: &[usize], newest: Option<usize>) -> Vec<(usize, i32)> {
    let wanted = rollout.replicas();
    let allowed = rollout.limit();
    let mut order: Vec<usize> = active.to_vec();
    order.extend(newest.filter(|newest| !active.contains(newest)));
    let size = |position: &usize| i64::from(rollout.sets[*position].replicas());
    let total: i64 = order.iter().map(size).sum();
    let delta = allowed - total;
    let mut sizes: Vec<(usize, i64)> = order.iter().map(|position| (*position, size(position))).collect();
    if delta == 0 && defect!(NoSizeWithoutDistribution) {
        return order.into_iter().map(|position| (position, 0)).collect();
    }
    if delta >= 0 && defect!(GrowthSharedWithOldSets) {
        for (_, size) in &mut sizes {
            *size += delta * *size / total.max(1);
        }
    } else if delta >= 0 {
        let room = delta.min(room(rollout));
        let grows = newest.or_else(|| active.last().copied());
        if let Some((_, size)) = sizes.iter_mut().find(|(position, _)| Some(*position) == grows) {
            *size = (*size + room).min(i64::from(wanted).max(*size));
        }
    } else {
        // Positions are in the order of age.
        sizes.sort_by_key(|(position, size)| (-*size, *position));
        let mut added = 0;
        for (position, size) in &mut sizes {
            let share = share(&rollout.sets[*position], *size, rollout, allowed)
                .max(delta - added)
                .min(0);
            *size += share;
            added += share;
        }
        if let Some((_, first)) = sizes.first_mut() {
            *first = (*first + delta - added).max(0);
        }
        spare_available(rollout, &mut sizes);
        spare_preserved(rollout, &mut sizes);
    }
    numbers(sizes)
}

/// Exchanges places between sets so that serving machines stay as long as others can be deleted instead. Next come
/// available machines that are selected for an update: they serve again once it has ended.
fn spare_available(rollout: &RolloutDraft, sizes: &mut [(usize, i64)]) {
    let least = i64::from(rollout.replicas()) - rollout.bounds().unavailable;
    let retained = retained(rollout, sizes);
    // The gain of the smallest number of additional places that gains anything: preserved failed machines outrank
    // serving ones.
    let gain = |(position, size): &(usize, i64), retained: &RetainedMachines| {
        let most = i64::from(rollout.sets[*position].replicas()) - size;
        let places = retained.places_to_gain(*size, most)?;
        let (now, then) = (retained.counts(*size), retained.counts(size + places));
        let gain = (then.serving - now.serving, then.available - now.available);
        Some((gain, Reverse(places)))
    };
    for _ in 0..rollout.replicas() {
        let serving = total_serving(&retained, sizes);
        let gains = (0..sizes.len())
            .rev()
            .filter_map(|to| Some((gain(&sizes[to], &retained[to])?, to)));
        let most = gains.max_by_key(|(gain, _)| *gain).filter(|_| serving < least);
        let Some(((best, Reverse(places)), to)) = most else {
            return;
        };
        let mut changed = sizes.to_vec();
        for _ in 0..places {
            let loses_nothing = |index: &usize| {
                let (retained, (_, size)) = (&retained[*index], changed[*index]);
                *index != to && size > 0 && retained.counts(size - 1) == retained.counts(size)
            };
            match (0..changed.len()).find(loses_nothing) {
                Some(from) => changed[from].1 -= 1,
                // All other machines serve, or will once their update has ended: until then this one stays in addition.
                None if best.0 > 0 && serving < least - rollout.kept_failed() => {}
                None => return,
            }
            changed[to].1 += 1;
        }
        sizes.copy_from_slice(&changed);
    }
}

/// The machines of each of these sets that stay.
fn retained<'a>(rollout: &'a RolloutDraft, sizes: &[(usize, i64)]) -> Vec<RetainedMachines<'a>> {
    sizes
        .iter()
        .map(|(position, _)| RetainedMachines::of(&rollout.sets[*position], rollout.now))
        .collect()
}

/// How many machines of all sets serve with these sizes.
fn total_serving(retained: &[RetainedMachines], sizes: &[(usize, i64)]) -> i64 {
    let each = retained.iter().zip(sizes);
    each.map(|(retained, (_, size))| retained.counts(*size).serving).sum()
}

/// Exchanges places between sets so that preserved machines are deleted last, and manually preserved ones after
/// automatically preserved ones. Preserved failed machines lower the required number of serving machines. A rollout in
/// progress deletes them with their set, except those that serve and are updated in place.
fn spare_preserved(rollout: &RolloutDraft, sizes: &mut [(usize, i64)]) {
    let paused = rollout.deployment.spec.paused;
    if !paused && rollout.deployment.spec.strategy.type_ != IN_PLACE_UPDATE {
        return;
    }
    let worth = |machine: Option<&Arc<Machine>>| match machine.map(|machine| &machine.status) {
        Some(status) if status.is_kept() && (paused || !status.is_kept_failed()) => {
            let by = status.preservation.as_ref().map(|record| &record.by);
            if by == Some(&PreservedBy::Auto) { 1 } else { 2 }
        }
        _ => 0,
    };
    let serves = |set: &SetDraft, machine: Option<&Arc<Machine>>| {
        i64::from(machine.is_some_and(|machine| set.serves(machine, rollout.now)))
    };
    let least = i64::from(rollout.replicas()) - rollout.bounds().unavailable - rollout.kept_failed();
    let retained = retained(rollout, sizes);
    loop {
        let serving = total_serving(&retained, sizes);
        // The effect of moving one place from the set `from` to the set `to`.
        let swap = |to: usize, from: usize| {
            let (taker, giver) = (&rollout.sets[sizes[to].0], &rollout.sets[sizes[from].0]);
            let (gained, lost) = (retained[to].last(sizes[to].1 + 1), retained[from].last(sizes[from].1));
            let served = serves(taker, gained) - serves(giver, lost);
            let possible = to != from
                && sizes[to].1 < i64::from(taker.replicas())
                && sizes[from].1 > 0
                && serving + served >= least.min(serving);
            let better = worth(gained) - worth(lost);
            (possible && better > 0).then_some(((better, served), to, from))
        };
        let pairs = (0..sizes.len()).flat_map(|to| (0..sizes.len()).map(move |from| (to, from)));
        let Some((_, to, from)) = pairs.filter_map(|(to, from)| swap(to, from)).max() else {
            return;
        };
        sizes[to].1 += 1;
        sizes[from].1 -= 1;
    }
}

/// The change of the set's size; zero or less.
fn share(set: &SetDraft, size: i64, rollout: &RolloutDraft, allowed: i64) -> i64 {
    if size == 0 || rollout.replicas() == 0 {
        return -size;
    }
    let recorded = set
        .annotation(keys::MAX_REPLICAS_ANNOTATION)
        .and_then(|text| text.parse::<i64>().ok());
    let total = recorded.unwrap_or(i64::from(rollout.deployment.status.replicas)).max(1);
    // Twice the product of two sizes does not fit into 64 bits.
    let (wide, allowed, total) = (i128::from(size), i128::from(allowed), i128::from(total));
    let rounded = (2 * wide * allowed + total).div_euclid(2 * total);
    i64::try_from(rounded).unwrap_or(i64::MAX).saturating_sub(size)
}

/// Only the newest set grows; the oldest sets shrink first. In an in-place update, serving machines stay as long as
/// others can be deleted instead.
fn in_order(rollout: &RolloutDraft, active: &[usize], newest: Option<usize>, wanted: i64) -> Vec<(usize, i32)> {
    let size = |position: &usize| rollout.sets[*position].replicas();
    let total: i64 = active.iter().map(|position| i64::from(size(position))).sum();
    let mut order: Vec<usize> = revision::old_sets(rollout, newest)
        .into_iter()
        .filter(|one| active.contains(one))
        .collect();
    order.extend(newest);
    let mut surplus = total - wanted;
    let mut sizes = Vec::new();
    for position in order {
        let mut to = i64::from(size(&position));
        if surplus > 0 {
            let removed = surplus.min(to);
            to -= removed;
            surplus -= removed;
        } else if surplus < 0 && Some(position) == newest {
            to += room(rollout).min(-surplus);
            surplus = 0;
        }
        sizes.push((position, to));
    }
    if rollout.deployment.spec.strategy.type_ == IN_PLACE_UPDATE && total > wanted {
        spare_available(rollout, &mut sizes);
    }
    if total > wanted {
        spare_preserved(rollout, &mut sizes);
    }
    numbers(sizes)
}

fn numbers(sizes: Vec<(usize, i64)>) -> Vec<(usize, i32)> {
    sizes
        .into_iter()
        .map(|(position, size)| (position, i32::try_from(size.max(0)).unwrap_or(i32::MAX)))
        .collect()
}
