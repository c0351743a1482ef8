//! The top level of the decision about one Deployment.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;

use super::sets::{Scene, Sets};
use super::view::View;
use super::{numbers, progress, recreate, revisions, rolling, scale};
use crate::Kind;
use crate::workloads::claims::claim;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Note, Plan};

/// Decides about one Deployment.
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

/// Selects the rollout step from the deployment's spec and state, and records the changes in the scene.
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

/// Whether an active set was scaled for another number of replicas.
fn is_scaling(scene: &Scene<'_>) -> bool {
    scene.sets.all().any(|set| {
        let desired = meta::number(&set.now.metadata, numbers::DESIRED_REPLICAS);
        set.replicas() > 0 && desired.is_some_and(|desired| desired != i64::from(numbers::replicas(scene.spec)))
    })
}

/// The plan that writes the changes of the scene.
fn finish(mut plan: Plan, scene: Scene<'_>) -> Plan {
    plan.wake(progress::deadline(&scene.deployment, scene.spec, scene.now));
    let status = (scene.deployment != *scene.view.deployment).then_some(scene.deployment);
    // After a failed attempt the status is written before the next attempt.
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

/// Records why nothing is done, once per generation.
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
