//! Recreate strategy: all old pods terminate before a new pod starts.

use std::collections::BTreeSet;

use super::sets::{Scene, Set};
use super::{numbers, progress, revisions};
use crate::workloads::{meta, pods};

/// One step of a recreate rollout.
pub fn roll_out(scene: &mut Scene<'_>) {
    revisions::sync(scene);
    if drop_old(scene) || old_pods_run(scene) || !revisions::sync_or_create(scene) {
        return;
    }
    let (spec, wanted) = (scene.spec, numbers::replicas(scene.spec));
    if let Some(new) = &mut scene.sets.new {
        new.scale(spec, wanted);
    }
    if progress::is_complete(scene) {
        revisions::clean_up(scene);
    }
}

fn drop_old(scene: &mut Scene<'_>) -> bool {
    let spec = scene.spec;
    let mut scaled = false;
    for set in scene.sets.old_active() {
        scaled |= set.scale(spec, 0);
    }
    scaled
}

/// Whether an unfinished pod of an old set is left; terminating pods count.
fn old_pods_run(scene: &Scene<'_>) -> bool {
    if quantity::total(scene.sets.old.iter().map(Set::actual)) > 0 {
        return true;
    }
    let old: BTreeSet<&str> = scene.sets.old.iter().map(|set| meta::uid(&set.now.metadata)).collect();
    scene.view.pods.iter().any(|pod| {
        let controller = runtime::ownership::controller(&pod.metadata);
        !pods::is_terminal(pod) && controller.is_some_and(|controller| old.contains(controller.uid.as_str()))
    })
}
