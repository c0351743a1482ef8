//! The decision about one Job.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::scene::{Scene, TRACKING, is_tracked};
use super::{conditions, count, manage};
use crate::Kind;
use crate::workloads::claims::claim;
use crate::workloads::meta::{self, Owner, counted};
use crate::workloads::plan::{Action, Failure, Plan, Target};
use crate::workloads::pods;

/// The observed state for a decision about a Job.
#[derive(Clone, Debug)]
pub struct View {
    /// The job.
    pub job: Arc<Job>,
    /// The pods that it controls, and the orphaned pods of its namespace.
    pub pods: Vec<Arc<Pod>>,
    /// The failure of the last attempt.
    pub failure: Option<Failure>,
}

/// Decides about one Job.
pub fn decide(view: &View, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = &view.job.spec else { return plan };
    if spec
        .managed_by
        .as_deref()
        .is_some_and(|manager| manager != "kubernetes.io/job-controller")
    {
        return plan;
    }
    let status = view.job.status.clone().unwrap_or_default();
    if let Some(finished) = conditions::finished_at(&status) {
        expire(&mut plan, view, spec, finished, now);
        release(&mut plan, &view.pods, &Owner::of(&*view.job));
        return plan;
    }
    let selector = spec.selector.clone().unwrap_or_default();
    let owner = Owner::of(&*view.job);
    let pods = claim(&mut plan, Kind::Pod, &owner, &selector, &view.pods, |_| {
        !runtime::selector::is_empty(&selector)
    });
    let scene = Scene {
        spec,
        status,
        owner,
        pods,
        now,
    };
    decide_running(&mut plan, view, scene);
    plan
}

fn decide_running(plan: &mut Plan, view: &View, mut scene: Scene<'_>) {
    let now = scene.now;
    if scene.status.start_time.is_none() && !scene.is_suspended() {
        scene.status.start_time = Some(Time(now));
    }
    let tally = count::tally(&scene);
    let mut verdict = conditions::verdict(plan, &scene, &tally);
    let mut steps = Plan::default();
    let mut active = scene.active().len();
    let mut suspension = None;
    if verdict.is_open() {
        if !scene.owner.deleting {
            active = manage::manage(&mut steps, &scene, &tally);
            verdict = conditions::completed(&scene, &tally, active);
            if verdict.is_open() {
                suspension = conditions::suspend_or_resume(&mut scene);
            }
        }
    } else {
        for pod in scene.active() {
            steps.delete_pod(pod);
        }
        active = 0;
    }
    // After a failed attempt the status is written first; otherwise after the other actions.
    let retrying = view.failure.is_some();
    if retrying {
        active = scene.active().len();
    }
    let deletes = steps
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Delete { .. }))
        .count();
    let terminating = scene.terminating().saturating_add(if retrying { 0 } else { deletes });
    let ready = scene.active().iter().filter(|pod| pods::is_ready(pod)).count();

    let counted_now = count::count(&scene, &verdict);
    let mut status = counted_now.status;
    status.active = counted(meta::count(active));
    status.ready = Some(meta::count(ready.min(active)));
    status.terminating = Some(meta::count(terminating));
    let ended = conditions::conclude(&mut status, &verdict, now, active.saturating_add(terminating));

    plan.wake(steps.deadline);
    if retrying {
        write(plan, view, status);
        plan.actions.append(&mut steps.actions);
    } else {
        plan.actions.append(&mut steps.actions);
        write(plan, view, status);
    }
    for pod in counted_now.release {
        plan.remove_finalizer(Kind::Pod, &pod.metadata, TRACKING);
    }
    for note in suspension.into_iter().chain(ended) {
        plan.record(note);
    }
}

fn write(plan: &mut Plan, view: &View, status: JobStatus) {
    if view.job.status.as_ref() != Some(&status) {
        let mut changed = Job::clone(&view.job);
        changed.status = Some(status);
        plan.update_status(changed);
    }
}

/// Deletes a finished job after its TTL, its pods first.
fn expire(plan: &mut Plan, view: &View, spec: &JobSpec, finished: Timestamp, now: Timestamp) {
    let Some(seconds) = spec.ttl_seconds_after_finished else {
        return;
    };
    if meta::is_deleting(&view.job.metadata) {
        return;
    }
    let expiry = meta::later(finished, i64::from(seconds));
    if expiry > now {
        plan.wake(Some(expiry));
        return;
    }
    plan.actions.push(Action::Delete {
        target: Target::new(Kind::Job, &view.job.metadata),
        foreground: true,
        note: None,
    });
}

/// Removes the finalizers from pods of a job that no longer counts them.
fn release(plan: &mut Plan, pods: &[Arc<Pod>], owner: &Owner) {
    for pod in pods
        .iter()
        .filter(|pod| owner.controls(&pod.metadata) && is_tracked(pod))
    {
        plan.remove_finalizer(Kind::Pod, &pod.metadata, TRACKING);
    }
}

/// Removes the finalizers from pods whose job is gone.
pub fn release_orphans(pods: &[Arc<Pod>]) -> Plan {
    let mut plan = Plan::default();
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        plan.remove_finalizer(Kind::Pod, &pod.metadata, TRACKING);
    }
    plan
}
