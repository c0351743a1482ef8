//! Rolling update of a StatefulSet: from the highest ordinal down to the partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::RollingUpdateStatefulSetStrategy;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::identity;
use super::scene::{Scene, delete};
use crate::workloads::meta::{self, Rounding, amount, count, size};
use crate::workloads::plan::Plan;

fn rolling<'a>(scene: &'a Scene<'_>) -> Option<&'a RollingUpdateStatefulSetStrategy> {
    scene.spec.update_strategy.as_ref()?.rolling_update.as_ref()
}

/// Whether the update waits until another client deletes the pods.
pub(super) fn is_on_delete(scene: &Scene<'_>) -> bool {
    let strategy = scene.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
}

/// Whether a new pod of this ordinal has the version before the update.
pub(super) fn keeps_old(scene: &Scene<'_>, ordinal: i32) -> bool {
    if is_on_delete(scene) {
        return false;
    }
    let is_current = |pod: &Pod| !meta::is_deleting(&pod.metadata) && identity::revision_of(pod) == scene.current.name;
    let kept = match rolling(scene) {
        Some(rolling) => rolling.partition.unwrap_or_default(),
        None => count(scene.pods.iter().filter(|pod| is_current(pod)).count()),
    };
    ordinal < scene.start().saturating_add(kept)
}

/// How many pods may be unavailable during an update; default one.
fn max_unavailable(scene: &Scene<'_>) -> i32 {
    let bound = rolling(scene).and_then(|rolling| rolling.max_unavailable.clone());
    let bound = bound.unwrap_or(IntOrString::Int(1));
    amount(&bound, scene.replicas(), Rounding::Down).max(1)
}

/// Plans the deletion of the next outdated pods, from the highest ordinal down, as far as the number of
/// unavailable pods permits.
pub(super) fn roll(plan: &mut Plan, scene: &Scene<'_>, pods: &BTreeMap<i32, Arc<Pod>>) {
    if is_on_delete(scene) {
        return;
    }
    let partition = rolling(scene).and_then(|rolling| rolling.partition).unwrap_or_default();
    let lowest = scene.start().saturating_add(partition);
    let is_new = |pod: &Pod| identity::revision_of(pod) == scene.update.name;
    let (outdated, others): (Vec<_>, Vec<_>) = pods
        .range(lowest..)
        .rev()
        .map(|(_, pod)| pod)
        .partition(|pod| !is_new(pod) && !meta::is_deleting(&pod.metadata));
    let unsettled = others.iter().filter(|pod| !scene.is_settled(pod)).count();
    let last = scene.start().saturating_add(scene.replicas());
    let absent = (lowest..last).filter(|ordinal| !pods.contains_key(ordinal)).count();
    let missing = unsettled.saturating_add(absent);
    let room = size(max_unavailable(scene)).saturating_sub(missing);
    for pod in outdated.into_iter().take(room) {
        delete(plan, scene, pod);
    }
}
