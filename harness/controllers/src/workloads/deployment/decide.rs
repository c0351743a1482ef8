//! The decision about one Deployment, at its highest level.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use super::sets::{Scene, Sets};
use super::{numbers, progress, recreate, revisions, rolling, scale};
use crate::Kind;
use crate::workloads::claims::claim;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Failure, Note, Plan};

/// What a decision about a Deployment rests on.
#[derive(Clone, Debug)]
pub struct View {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// The ReplicaSets that it controls, and those of its namespace that nobody controls.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// The names of ReplicaSets that are taken, as far as it could want them.
    pub names: BTreeSet<String>,
    /// The pods that its ReplicaSets control, those included that are on their way out.
    pub pods: Vec<Arc<Pod>>,
    /// What failed at the last attempt.
    pub failure: Option<Failure>,
}

/// What to do about a Deployment.
pub fn decide(view: &View, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = view.deployment.spec.as_ref() else {
        return plan;
    };
    let owner = Owner::of(&*view.deployment);
    if runtime::selector::is_empty(&spec.selector) {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        observe_only(&mut plan, view, message);
        return plan;
    }
    let mut claimed = claim(&mut plan, Kind::ReplicaSet, &owner, &spec.selector, &view.sets, |_| {
        true
    });
    claimed.sort_by(|one, other| revisions::by_age(one, other));
    let sets = Sets::new(claimed, &spec.template);
    let mut scene = Scene {
        view,
        spec,
        owner,
        now,
        sets,
        deployment: Deployment::clone(&view.deployment),
        notes: Vec::new(),
        deletions: Vec::new(),
    };
    walk(&mut scene);
    finish(plan, scene)
}

/// Goes the way that the deployment's spec and state ask for; the scene remembers what that takes.
fn walk(scene: &mut Scene<'_>) {
    if scene.owner.deleting {
        progress::sync_status(scene);
        return;
    }
    progress::note_pause(scene);
    if scene.is_paused() || is_scaling(scene) {
        revisions::sync(scene);
        scale::scale(scene);
        if scene.is_paused() {
            revisions::clean_up(scene);
        }
        progress::sync_status(scene);
        return;
    }
    if numbers::is_recreate(scene.spec) {
        recreate::roll_out(scene);
    } else {
        rolling::roll_out(scene);
    }
    progress::sync_rollout_status(scene);
}

/// Whether an active set was made for another number of replicas than is asked for now.
fn is_scaling(scene: &Scene<'_>) -> bool {
    scene.sets.all().any(|set| {
        let desired = meta::number(&set.now.metadata, numbers::DESIRED_REPLICAS);
        set.replicas() > 0 && desired.is_some_and(|desired| desired != i64::from(numbers::replicas(scene.spec)))
    })
}

/// The plan that brings the world to what the scene has become.
fn finish(mut plan: Plan, scene: Scene<'_>) -> Plan {
    plan.wake(progress::deadline(&scene.deployment, scene.spec, scene.now));
    let status = (scene.deployment != *scene.view.deployment).then_some(scene.deployment);
    // After a failed attempt the status says so before it is tried again.
    let (first, last) = if scene.view.failure.is_some() {
        (status, None)
    } else {
        (None, status)
    };
    if let Some(status) = first {
        plan.update_status(status);
    }
    scene.sets.write(&mut plan);
    for set in &scene.deletions {
        plan.delete(Kind::ReplicaSet, &set.metadata);
    }
    for note in scene.notes {
        plan.record(note);
    }
    if let Some(status) = last {
        plan.update_status(status);
    }
    plan
}

/// Says why nothing is done, once for each generation.
fn observe_only(plan: &mut Plan, view: &View, message: &str) {
    let observed = view
        .deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    if observed >= view.deployment.metadata.generation {
        return;
    }
    plan.record(Note::warning("SelectingAll", message));
    let mut changed = Deployment::clone(&view.deployment);
    changed.status.get_or_insert_default().observed_generation = view.deployment.metadata.generation;
    plan.update_status(changed);
}

impl Scene<'_> {
    /// Whether the deployment is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// The deployment's spec and how many pods it wants.
    pub(super) fn wanted(&self) -> (&DeploymentSpec, i32) {
        (self.spec, numbers::replicas(self.spec))
    }
}
