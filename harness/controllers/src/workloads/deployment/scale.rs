//! Scaling during a rollout or a pause: each set in proportion to its size.

use std::cmp::Reverse;

use super::numbers::{self, MAX_REPLICAS};
use super::sets::{Scene, Set};
use crate::workloads::meta;
use quantity::Saturating as _;

/// Scales the sets to the desired number of pods.
pub fn scale(scene: &mut Scene<'_>) {
    let (spec, wanted) = (scene.spec, numbers::replicas(scene.spec));
    if let Some(set) = only_active_or_latest(scene) {
        if set.replicas() != wanted {
            set.scale(spec, wanted);
        }
        return;
    }
    if is_saturated(scene) {
        for set in scene.sets.old_active() {
            set.scale(spec, 0);
        }
        return;
    }
    if !numbers::is_recreate(spec) {
        in_proportion(scene);
    }
}

/// The only set with pods; if no set has pods, the new set or else the latest one.
fn only_active_or_latest<'a>(scene: &'a mut Scene<'_>) -> Option<&'a mut Set> {
    let sets = &mut scene.sets;
    let new_is_active = sets.new.as_ref().is_some_and(|set| set.replicas() > 0);
    match (new_is_active, sets.old_active().count()) {
        (true, 0) => sets.new.as_mut(),
        (false, 0) => sets.new.as_mut().or(sets.old.last_mut()),
        (false, 1) => sets.old_active().next(),
        _ => None,
    }
}

/// Whether the new set has all desired pods and all are available.
fn is_saturated(scene: &Scene<'_>) -> bool {
    let wanted = numbers::replicas(scene.spec);
    scene.sets.new.as_ref().is_some_and(|set| {
        let desired = meta::number(&set.now.metadata, numbers::DESIRED_REPLICAS);
        set.replicas() == wanted && desired == Some(i64::from(wanted)) && set.available() == wanted
    })
}

fn in_proportion(scene: &mut Scene<'_>) {
    let (spec, wanted) = (scene.spec, numbers::replicas(scene.spec));
    let most = if wanted > 0 {
        wanted.saturating_add(numbers::max_surge(spec))
    } else {
        0
    };
    let to_add = most.saturating_sub(scene.sets.total());
    let status_replicas = scene.deployment.status.as_ref().and_then(|status| status.replicas);

    let sets = &mut scene.sets;
    let mut active: Vec<&mut Set> = sets.old.iter_mut().chain(&mut sets.new).collect();
    active.retain(|set| set.replicas() > 0);
    // The largest sets change most; among equals, newer sets grow first and older sets shrink first.
    if to_add > 0 {
        active.sort_by_key(|set| (Reverse(set.replicas()), Reverse(meta::created(&set.now.metadata))));
    } else {
        active.sort_by_key(|set| (Reverse(set.replicas()), meta::created(&set.now.metadata)));
    }

    let mut added = 0;
    let mut sizes = Vec::new();
    for set in &active {
        let share = share(set, wanted, most, status_replicas.unwrap_or_default());
        let share = if to_add > 0 {
            share.min(to_add.saturating_sub(added)).max(0)
        } else {
            share.max(to_add.saturating_sub(added)).min(0)
        };
        added.raise(share);
        sizes.push(set.replicas().saturating_add(share));
    }
    if let Some(first) = sizes.first_mut() {
        *first = first.saturating_add(to_add).saturating_sub(added).max(0);
    }
    for (set, size) in active.into_iter().zip(sizes) {
        set.scale(spec, size);
    }
}

/// The change of a set when the deployment's maximum changes from the recorded one to `most`.
fn share(set: &Set, wanted: i32, most: i32, status_replicas: i32) -> i32 {
    let replicas = set.replicas();
    if wanted == 0 {
        return replicas.saturating_neg();
    }
    let before = meta::number(&set.now.metadata, MAX_REPLICAS)
        .filter(|before| *before > 0)
        .unwrap_or(i64::from(status_replicas))
        .max(1);
    let twice = i64::from(replicas).saturating_mul(i64::from(most)).saturating_mul(2);
    let rounded = twice
        .saturating_add(before)
        .checked_div(before.saturating_mul(2))
        .unwrap_or_default();
    i32::try_from(rounded).unwrap_or(i32::MAX).saturating_sub(replicas)
}
