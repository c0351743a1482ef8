//! The input of drain decisions: the pods of a node, their volumes and their disruption budgets.
//!
//! It is collected only for machines that are being drained. The module must not contain rules about pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{self, PersistentVolumeSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use mcm_core::machine::{Budget, DrainMemory, Pod, View};
use mcm_core::ownership::controller;

use super::cluster_state::TargetState;
use crate::cache::Key;

/// The default grace period of a pod, as in the API server.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// Adds the cached pods on `node` to the view.
pub(crate) fn set_cached_pods(view: &mut View, target: &TargetState, node: &str) {
    let pods = target.pods_on(node);
    set_pods(view, target, pods.iter().map(|pod| &**pod));
    view.attached_elsewhere = attached_elsewhere(target, &view.drain, node);
}

/// Adds pods that were listed from the API server to the view.
pub(crate) fn set_listed_pods(view: &mut View, target: &TargetState, pods: &[v1::Pod]) {
    set_pods(view, target, pods.iter());
    view.pods_listed = true;
}

fn set_pods<'a>(view: &mut View, target: &TargetState, pods: impl Iterator<Item = &'a v1::Pod>) {
    let mut specs = BTreeMap::new();
    view.pods = Some(pods.map(|pod| pod_view(target, pod, &mut specs)).collect());
    view.volumes = specs;
}

fn pod_view(target: &TargetState, pod: &v1::Pod, specs: &mut BTreeMap<String, PersistentVolumeSpec>) -> Pod {
    let controller = controller(&pod.metadata);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let spec = pod.spec.as_ref();
    let claims = claims(pod);
    let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
    Pod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        daemon: controller.is_some_and(|owner| owner.kind == "DaemonSet"),
        stateful: controller.is_some_and(|owner| owner.kind == "StatefulSet"),
        mirror: pod.annotations().contains_key("kubernetes.io/config.mirror"),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        ends: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        grace: grace
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(DEFAULT_GRACE, Duration::from_secs),
        priority: spec.and_then(|spec| spec.priority).unwrap_or_default(),
        claims: !claims.is_empty(),
        volumes: volumes(target, claims, specs),
        budgets: budgets(target, pod),
    }
}

/// The claims that a pod's volumes reference.
fn claims(pod: &v1::Pod) -> Vec<Key> {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| volume.persistent_volume_claim.as_ref())
        .map(|claim| Key::new(namespace.clone(), claim.claim_name.clone()))
        .collect()
}

/// The names of the PersistentVolumes of claims; adds their specs to `specs`. Unbound and absent claims are skipped.
fn volumes(target: &TargetState, claims: Vec<Key>, specs: &mut BTreeMap<String, PersistentVolumeSpec>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for claim in claims {
        let claim = target.claims.get(&claim);
        let bound = claim
            .as_ref()
            .and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
        let Some(name) = bound.filter(|name| !name.is_empty()) else {
            continue;
        };
        let volume = target.volumes.get(&Key::new("", &name));
        if let Some(spec) = volume.and_then(|volume| volume.spec.clone()) {
            specs.insert(name.clone(), spec);
        }
        names.insert(name);
    }
    names.into_iter().collect()
}

fn budgets(target: &TargetState, pod: &v1::Pod) -> Vec<Budget> {
    let namespace = pod.namespace().unwrap_or_default();
    let all: Vec<Arc<PodDisruptionBudget>> = target.budgets_in(&namespace);
    all.iter()
        .filter(|budget| covers(budget, pod))
        .map(|budget| Budget::of(budget))
        .collect()
}

/// Whether a budget's selector selects the pod. An absent or invalid selector selects no pod.
fn covers(budget: &PodDisruptionBudget, pod: &v1::Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    selector.is_some_and(|selector| selector.matches(pod.labels()))
}

/// The volumes that the drain waits for and that are attached to another node.
fn attached_elsewhere(target: &TargetState, drain: &DrainMemory, node: &str) -> BTreeSet<String> {
    let moving = drain.moving.iter().flat_map(|moving| moving.volumes.keys());
    let elsewhere = |volume: &&String| {
        target.attachments_of_volume(volume).iter().any(|attachment| {
            let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
            attached && attachment.spec.node_name != node
        })
    };
    moving.filter(elsewhere).cloned().collect()
}

#[cfg(test)]
mod tests;
