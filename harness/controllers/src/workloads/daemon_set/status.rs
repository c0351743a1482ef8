//! The status of a DaemonSet.

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::eligible::Eligibility;
use super::scene::{Scene, oldest_first};
use crate::workloads::meta::counted;
use crate::workloads::pods;
use quantity::Saturating as _;

/// Counts nodes, by the oldest pod of each.
pub(super) fn status(scene: &Scene<'_>) -> DaemonSetStatus {
    let before = scene.set.status.clone().unwrap_or_default();
    let (mut desired, mut scheduled, mut misscheduled) = (0, 0, 0);
    let (mut ready, mut available, mut updated) = (0, 0, 0);
    for (node, eligibility) in &scene.nodes {
        let oldest = scene.on(node).iter().min_by_key(|pod| oldest_first(pod));
        if *eligibility != Eligibility::Wanted {
            misscheduled.raise(i32::from(oldest.is_some()));
            continue;
        }
        desired.raise(1);
        if let Some(pod) = oldest {
            scheduled.raise(1);
            ready.raise(i32::from(pods::is_ready(pod)));
            available.raise(i32::from(scene.is_available(pod)));
            updated.raise(i32::from(scene.is_current(pod)));
        }
    }
    DaemonSetStatus {
        current_number_scheduled: scheduled,
        desired_number_scheduled: desired,
        number_available: counted(available),
        number_misscheduled: misscheduled,
        number_ready: ready,
        number_unavailable: counted(desired.saturating_sub(available)),
        observed_generation: scene.set.metadata.generation,
        updated_number_scheduled: counted(updated),
        collision_count: before.collision_count,
        conditions: before.conditions,
    }
}
