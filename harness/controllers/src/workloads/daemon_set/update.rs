//! Rolling update of a DaemonSet: by deleting old pods or by surging, within the bounds of the strategy.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::eligible::Eligibility;
use super::scene::{Changes, Scene};
use crate::workloads::meta::{self, Rounding, amount, count, size};
use quantity::Saturating as _;

/// The number of nodes that may run a second pod during an update.
pub(super) fn max_surge(scene: &Scene<'_>) -> i32 {
    bound(scene, |rolling| rolling.max_surge.clone(), 0)
}

/// At least one of the bounds is positive, otherwise no pod could be updated.
fn max_unavailable(scene: &Scene<'_>) -> i32 {
    let bound = bound(scene, |rolling| rolling.max_unavailable.clone(), 1);
    if bound == 0 && max_surge(scene) == 0 { 1 } else { bound }
}

fn bound(
    scene: &Scene<'_>,
    of: impl Fn(&k8s_openapi::api::apps::v1::RollingUpdateDaemonSet) -> Option<IntOrString>,
    default: i32,
) -> i32 {
    if !is_rolling(scene) {
        return 0;
    }
    let strategy = scene.spec.update_strategy.as_ref();
    let value = strategy
        .and_then(|strategy| strategy.rolling_update.as_ref())
        .and_then(of);
    let wanted = scene
        .nodes
        .values()
        .filter(|node| **node == Eligibility::Wanted)
        .count();
    let value = value.unwrap_or(IntOrString::Int(default));
    amount(&value, count(wanted), Rounding::Up)
}

fn is_rolling(scene: &Scene<'_>) -> bool {
    let strategy = scene.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
}

/// The remaining pods of one node: of the current template, and of an older one.
enum Pair<'a> {
    None,
    Current(&'a Arc<Pod>),
    Old(&'a Arc<Pod>),
    Both(&'a Arc<Pod>, &'a Arc<Pod>),
    /// More than one pod of a template.
    Unsettled,
}

fn pair<'a>(scene: &Scene<'_>, pods: &'a [Arc<Pod>]) -> Pair<'a> {
    let staying = pods.iter().filter(|pod| !meta::is_deleting(&pod.metadata));
    let (current, old): (Vec<_>, Vec<_>) = staying.partition(|pod| scene.is_current(pod));
    match (current.as_slice(), old.as_slice()) {
        ([], []) => Pair::None,
        ([current], []) => Pair::Current(current),
        ([], [old]) => Pair::Old(old),
        ([current], [old]) => Pair::Both(current, old),
        _ => Pair::Unsettled,
    }
}

/// Plans the next step of the update.
pub(super) fn roll(scene: &Scene<'_>, changes: &mut Changes) {
    if !is_rolling(scene) {
        return;
    }
    if max_surge(scene) == 0 {
        replace(scene, changes);
    } else {
        surge(scene, changes);
    }
}

/// Deletes unavailable old pods immediately, others while fewer pods than the bound are unavailable.
fn replace(scene: &Scene<'_>, changes: &mut Changes) {
    let mut unavailable = 0;
    let (mut at_once, mut candidates) = (Vec::new(), Vec::new());
    for pods in scene.pods.values() {
        match pair(scene, pods) {
            Pair::Unsettled | Pair::None | Pair::Both(..) => unavailable.raise(1),
            Pair::Current(pod) => unavailable.raise(i32::from(!scene.is_available(pod))),
            Pair::Old(pod) if scene.is_available(pod) => candidates.push(Arc::clone(pod)),
            Pair::Old(pod) => at_once.push(Arc::clone(pod)),
        }
    }
    let room = size(max_unavailable(scene).saturating_sub(unavailable));
    changes.delete.extend(at_once);
    changes.delete.extend(candidates.into_iter().take(room));
}

/// Creates new pods beside old ones on at most the permitted number of nodes; an old pod is deleted when the
/// new one is available.
fn surge(scene: &Scene<'_>, changes: &mut Changes) {
    let mut surging = 0;
    let (mut at_once, mut candidates) = (Vec::new(), Vec::new());
    for (node, pods) in &scene.pods {
        let wanted = scene.nodes.get(node) == Some(&Eligibility::Wanted);
        match pair(scene, pods) {
            Pair::Unsettled => surging.raise(1),
            Pair::None | Pair::Current(_) => {}
            Pair::Old(_) if !wanted => {}
            Pair::Old(pod) if scene.is_available(pod) => candidates.push(node.clone()),
            Pair::Old(_) => at_once.push(node.clone()),
            Pair::Both(current, old) if scene.is_available(current) => changes.delete.push(Arc::clone(old)),
            Pair::Both(..) => surging.raise(1),
        }
    }
    let room = size(max_surge(scene).saturating_sub(surging));
    changes.create_on.extend(at_once);
    changes.create_on.extend(candidates.into_iter().take(room));
}
