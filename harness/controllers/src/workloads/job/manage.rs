//! The active pods of a job: creates new ones after the backoff and deletes surplus ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

use super::count::Tally;
use super::indexes::{self, INDEX};
use super::scene::{Scene, TRACKING, is_tracked};
use crate::Kind;
use crate::workloads::meta::{self, size};
use crate::workloads::plan::Plan;
use crate::workloads::{pods, ranking};

/// The maximum number of creations or deletions per pass.
const BURST: usize = 500;
/// The environment variable with the index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Plans creations and deletions; returns the number of active pods afterwards.
pub(super) fn manage(plan: &mut Plan, scene: &Scene<'_>, tally: &Tally) -> usize {
    let active = scene.active();
    let wanted = wanted(scene, tally, active.len());
    let surplus = surplus(scene, &active, active.len().saturating_sub(wanted));
    if !surplus.is_empty() {
        for pod in &surplus {
            // Pods that the job deletes itself do not count as failures.
            if is_tracked(pod) {
                plan.remove_finalizer(Kind::Pod, &pod.metadata, TRACKING);
            }
            plan.delete_pod(pod);
        }
        return active.len().saturating_sub(surplus.len());
    }
    let leaving = if scene.replaces_failed_only() {
        scene.terminating()
    } else {
        0
    };
    let missing = wanted.saturating_sub(active.len().saturating_add(leaving)).min(BURST);
    if missing == 0 {
        return active.len();
    }
    if let Some(until) = tally.wait_until.filter(|until| *until > scene.now) {
        plan.wake(Some(until));
        return active.len();
    }
    let new = if scene.is_indexed() {
        indexed(scene, missing)
    } else {
        let prefix = format!("{}-", scene.owner.name);
        vec![new_pod(scene, prefix); missing]
    };
    let created = new.len();
    for pod in new {
        plan.create_pod(pod);
    }
    active.len().saturating_add(created)
}

/// The desired number of active pods.
fn wanted(scene: &Scene<'_>, tally: &Tally, active: usize) -> usize {
    if scene.is_suspended() {
        return 0;
    }
    let parallelism = size(scene.spec.parallelism.unwrap_or(1));
    match scene.spec.completions {
        // After the first success the remaining pods finish, and no more are created.
        None if tally.succeeded > 0 => active.min(parallelism),
        None => parallelism,
        Some(completions) => size(completions.saturating_sub(tally.succeeded)).min(parallelism),
    }
}

/// The surplus pods: all but one per index, then as many as needed in deletion order.
fn surplus(scene: &Scene<'_>, active: &[&Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
    let mut left: Vec<Arc<Pod>> = active.iter().map(|pod| Arc::clone(pod)).collect();
    let mut surplus_pods = Vec::new();
    if scene.is_indexed() {
        let completions = scene.spec.completions.unwrap_or_default();
        ranking::sort_for_deletion(&mut left, &BTreeMap::new(), scene.now);
        left.reverse();
        let mut seen = BTreeSet::new();
        let (kept, doubled) = left
            .into_iter()
            .partition(|pod| indexes::index_of(pod, completions).is_some_and(|index| seen.insert(index)));
        (left, surplus_pods) = (kept, doubled);
    }
    ranking::sort_for_deletion(&mut left, &BTreeMap::new(), scene.now);
    let more = at_least.saturating_sub(surplus_pods.len());
    surplus_pods.extend(left.into_iter().take(more));
    surplus_pods.truncate(BURST);
    surplus_pods
}

fn new_pod(scene: &Scene<'_>, prefix: String) -> Pod {
    let mut pod = pods::from_template(&scene.spec.template, &scene.owner, prefix);
    pod.metadata
        .finalizers
        .get_or_insert_default()
        .push(TRACKING.to_owned());
    pod
}

/// Pods for the lowest indexes that have neither succeeded nor a pod.
fn indexed(scene: &Scene<'_>, missing: usize) -> Vec<Pod> {
    let completions = scene.spec.completions.unwrap_or_default();
    let mut taken = scene.succeeded_indexes();
    let present = scene
        .pods
        .iter()
        .filter(|pod| pods::is_active(pod) || (scene.replaces_failed_only() && pods::is_terminating(pod)));
    taken.extend(present.filter_map(|pod| indexes::index_of(pod, completions)));
    (0..completions)
        .filter(|index| !taken.contains(index))
        .take(missing)
        .map(|index| indexed_pod(scene, index))
        .collect()
}

fn indexed_pod(scene: &Scene<'_>, index: i32) -> Pod {
    let job = &scene.owner.name;
    let mut pod = new_pod(scene, format!("{job}-{index}-"));
    meta::annotate(&mut pod.metadata, INDEX, index.to_string());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(INDEX.to_owned(), index.to_string());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{job}-{index}"));
    let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    for container in containers {
        let variables = container.env.get_or_insert_default();
        if variables.iter().all(|variable| variable.name != INDEX_VARIABLE) {
            variables.push(EnvVar {
                name: INDEX_VARIABLE.to_owned(),
                value: None,
                value_from: Some(EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        api_version: None,
                        field_path: format!("metadata.labels['{INDEX}']"),
                    }),
                    ..EnvVarSource::default()
                }),
            });
        }
    }
    pod
}
