//! Rolling update: scales up the new set and scales down the old ones, within surge and unavailability.

use super::numbers;
use super::sets::{Scene, Set};
use super::{progress, revisions};
use quantity::Saturating as _;

/// One step of a rolling update.
pub fn roll_out(scene: &mut Scene<'_>) {
    if !revisions::sync_or_create(scene) || grow_new(scene) || shrink_old(scene) {
        return;
    }
    if progress::is_complete(scene) {
        revisions::clean_up(scene);
    }
}

fn grow_new(scene: &mut Scene<'_>) -> bool {
    let (spec, wanted) = (scene.spec, numbers::replicas(scene.spec));
    let target = scene.new_set_replicas();
    let Some(new) = &mut scene.sets.new else { return false };
    match new.replicas().cmp(&wanted) {
        std::cmp::Ordering::Equal => false,
        std::cmp::Ordering::Greater => new.scale(spec, wanted),
        std::cmp::Ordering::Less if target == new.replicas() => false,
        std::cmp::Ordering::Less => new.scale(spec, target),
    }
}

fn shrink_old(scene: &mut Scene<'_>) -> bool {
    let spec = scene.spec;
    let least = numbers::replicas(spec).saturating_sub(numbers::max_unavailable(spec));
    let total = scene.sets.total();
    let new_unavailable = scene
        .sets
        .new
        .as_ref()
        .map_or(0, |set| set.replicas().saturating_sub(set.staying_available()));
    let may_go = total.saturating_sub(least).saturating_sub(new_unavailable);
    if scene.sets.old_active().next().is_none() || may_go <= 0 {
        return false;
    }
    let unhealthy = drop_unhealthy(scene, may_go);
    let available = quantity::total(scene.sets.all().map(Set::staying_available));
    let healthy = drop_healthy(scene, available.saturating_sub(least));
    unhealthy.saturating_add(healthy) > 0
}

/// Scales down unavailable pods of old sets first. Returns the number of removed pods.
fn drop_unhealthy(scene: &mut Scene<'_>, may_go: i32) -> i32 {
    let spec = scene.spec;
    let mut gone = 0;
    for set in scene.sets.old_active() {
        let (replicas, unavailable) = (set.replicas(), set.replicas().saturating_sub(set.staying_available()));
        let dropped = unavailable.min(may_go.saturating_sub(gone));
        if dropped > 0 {
            set.scale(spec, replicas.saturating_sub(dropped));
            gone.raise(dropped);
        }
    }
    gone
}

/// Returns the number of removed pods.
fn drop_healthy(scene: &mut Scene<'_>, may_go: i32) -> i32 {
    let spec = scene.spec;
    let mut gone = 0;
    for set in scene.sets.old_active() {
        let dropped = set.replicas().min(may_go.saturating_sub(gone));
        if dropped > 0 {
            set.scale(spec, set.replicas().saturating_sub(dropped));
            gone.raise(dropped);
        }
    }
    gone
}
