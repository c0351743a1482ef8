//! Counts each finished pod exactly once: adds its uid to `status.uncountedTerminatedPods`, removes its
//! finalizer, then moves the uid from that list into the counter (KEP-2307).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use runtime::backoff::doubled;

use super::indexes;
use super::scene::{Scene, is_tracked};
use super::verdict::Verdict;
use crate::workloads::meta::{self, counted};
use crate::workloads::pods;

/// The maximum number of uncounted uids.
const MOST_UNCOUNTED: usize = 500;
/// The backoff after a failed pod, doubled with each further failure without a success in between.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// The results of a job's pods so far, including uncounted ones.
pub(super) struct Tally {
    pub succeeded: i32,
    pub failed: i32,
    /// No new pod is created before this time.
    pub wait_until: Option<Timestamp>,
}

struct Uncounted {
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
}

fn uncounted(status: &JobStatus) -> Uncounted {
    let known = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let set = |uids: Option<Vec<String>>| uids.unwrap_or_default().into_iter().collect();
    Uncounted {
        succeeded: set(known.succeeded),
        failed: set(known.failed),
    }
}

/// Counts results without writing.
pub(super) fn tally(scene: &Scene<'_>) -> Tally {
    let known = uncounted(&scene.status);
    let is_new = |pod: &&Arc<Pod>| {
        let uid = meta::uid(&pod.metadata);
        is_tracked(pod) && !known.succeeded.contains(uid) && !known.failed.contains(uid)
    };
    let new =
        |holds: &dyn Fn(&Pod) -> bool| meta::count(scene.pods.iter().filter(is_new).filter(|pod| holds(pod)).count());
    let succeeded = if scene.is_indexed() {
        meta::count(scene.succeeded_indexes().len())
    } else {
        quantity::total([
            scene.status.succeeded.unwrap_or_default(),
            meta::count(known.succeeded.len()),
            new(&|pod| pods::phase(pod) == "Succeeded"),
        ])
    };
    let failed = quantity::total([
        scene.status.failed.unwrap_or_default(),
        meta::count(known.failed.len()),
        new(&|pod| scene.has_failed(pod)),
    ]);
    Tally {
        succeeded,
        failed,
        wait_until: wait_until(scene),
    }
}

/// The end of the backoff after the failures since the last success.
fn wait_until(scene: &Scene<'_>) -> Option<Timestamp> {
    let ends = |holds: &dyn Fn(&Pod) -> bool| -> Vec<Timestamp> {
        scene
            .pods
            .iter()
            .filter(|pod| holds(pod))
            .map(|pod| ended_at(pod))
            .collect()
    };
    let last_success = ends(&|pod| pods::phase(pod) == "Succeeded").into_iter().max();
    let failures: Vec<Timestamp> = ends(&|pod| scene.has_failed(pod))
        .into_iter()
        .filter(|end| last_success.is_none_or(|success| *end > success))
        .collect();
    let last = failures.iter().copied().max()?;
    let before = u32::try_from(failures.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = doubled(FIRST_WAIT, before, LONGEST_WAIT);
    last.saturating_add(wait).ok()
}

/// When a pod finished: from its containers, Ready condition, deletion, or else its creation.
fn ended_at(pod: &Pod) -> Timestamp {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref());
    let containers = statuses
        .unwrap_or_default()
        .iter()
        .filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref())
        .map(|time| time.0)
        .max();
    let unready = || {
        pods::ready_condition(pod)
            .filter(|condition| condition.status == "False")
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(|time| time.0)
    };
    let deleted = || {
        let deletion = pod.metadata.deletion_timestamp.as_ref()?;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        Some(meta::later(deletion.0, grace.saturating_neg()))
    };
    containers
        .or_else(unready)
        .or_else(deleted)
        .unwrap_or_else(|| meta::created(&pod.metadata))
}

/// The updated status, and the pods whose finalizers can be removed after the status is written.
pub(super) struct Counted {
    pub status: JobStatus,
    pub release: Vec<Arc<Pod>>,
}

/// Advances the counting of all finished pods by one step.
pub(super) fn count(scene: &Scene<'_>, verdict: &Verdict) -> Counted {
    let mut status = scene.status.clone();
    let mut known = uncounted(&status);
    let tracked: BTreeSet<&str> = scene
        .pods
        .iter()
        .filter(|pod| is_tracked(pod))
        .map(|pod| meta::uid(&pod.metadata))
        .collect();
    let into_counter = |uids: &mut BTreeSet<String>, counter: &mut Option<i32>| {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid.as_str()));
        let left = meta::count(before.saturating_sub(uids.len()));
        *counter = counted(counter.unwrap_or_default().saturating_add(left));
    };
    into_counter(&mut known.succeeded, &mut status.succeeded);
    into_counter(&mut known.failed, &mut status.failed);

    let completions = scene.spec.completions.unwrap_or_default();
    let written = status.completed_indexes.as_deref().unwrap_or_default();
    let mut completed = indexes::parse(written, completions);
    let mut release = Vec::new();
    for pod in scene.pods.iter().filter(|pod| is_tracked(pod)) {
        if quantity::total([release.len(), known.succeeded.len(), known.failed.len()]) >= MOST_UNCOUNTED {
            break;
        }
        let uid = meta::uid(&pod.metadata);
        let succeeded = pods::phase(pod) == "Succeeded" && !known.failed.contains(uid);
        let index = indexes::index_of(pod, completions);
        if succeeded && scene.is_indexed() {
            completed.extend(index);
        } else if succeeded {
            known.succeeded.insert(uid.to_owned());
        } else if scene.has_failed(pod) || verdict.is_failure() {
            if !scene.is_indexed() || index.is_some() {
                known.failed.insert(uid.to_owned());
            }
        } else if verdict.is_open() && !scene.owner.deleting {
            continue;
        }
        release.push(Arc::clone(pod));
    }
    if scene.is_indexed() {
        status.succeeded = counted(meta::count(completed.len()));
        status.completed_indexes = Some(indexes::text(&completed)).filter(|text| !text.is_empty());
    }
    let list = |uids: BTreeSet<String>| (!uids.is_empty()).then(|| uids.into_iter().collect());
    status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
        succeeded: list(known.succeeded),
        failed: list(known.failed),
    });
    Counted { status, release }
}
