//! The decision about one deployment. Order: validation, finalizer, adoption, the autoscaler's list, the newest set,
//! rollback, scaling, the strategy, status.

use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::deployment::MachineDeploymentStatus;
use mcm_api::{MachineSet, keys};

use super::bounds::{IN_PLACE_UPDATE, RECREATE};
use super::rollout_draft::RolloutDraft;
use super::{
    Reason, Settings, View, history, in_place, nodes, problems, recreate, revision, rollback, rolling, scale, status,
    trigger,
};
use crate::event::EventType;
use crate::finalizer::{finalizer_patch, has_finalizer};
use crate::ownership::{Claim, adoption, claim, release};
use crate::preservation::without_sub_phases;
use crate::steps::{Kind, OwnerAction, Plan};
use crate::template::template_hash;

/// The plan for the deployment.
pub fn decide(view: &View, settings: Settings, now: Timestamp) -> Plan<Reason> {
    let plain = without_sub_phases(&view.machines).map(|machines| View {
        machines,
        ..view.clone()
    });
    let view = plain.as_ref().unwrap_or(view);
    let deployment = &view.deployment;
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    let problems = usable(view);
    if !problems.is_empty() && !deleting {
        return refuse(view, settings, &problems.join("; "), now);
    }
    let mut plan = Plan::default();
    if !deleting && !has_finalizer(&deployment.metadata, keys::MACHINE_FINALIZER) {
        let patch = finalizer_patch(&deployment.metadata, keys::MACHINE_FINALIZER, true);
        let patch = if defect!(DeploymentFinalizersOverwritten) {
            finalizer_patch(&Default::default(), keys::MACHINE_FINALIZER, true)
        } else {
            patch
        };
        plan.push(own(view, patch), Reason::FinalizerMissing);
        return plan;
    }
    let sets = claims(view, &mut plan);
    if !plan.steps.is_empty() {
        return plan;
    }
    let mut rollout = RolloutDraft::new(view, settings, now, sets);
    if deleting {
        return delete(rollout);
    }
    if deployment.spec.strategy.type_.is_empty() {
        // The default of the CRD, for an object that was written before the CRD had it.
        super::bounds::ROLLING_UPDATE.clone_into(&mut rollout.deployment.spec.strategy.type_);
    }
    let observed = work(&mut rollout);
    rollout.deployment.spec.strategy.type_ = deployment.spec.strategy.type_.clone();
    let (mut status, wake) = observed;
    status::preservation_suspended(&rollout, &mut status);
    let mut plan = rollout.finish(Some(status));
    if let Some(wake) = wake {
        plan.wake_within(wake);
    }
    plan
}

fn usable(view: &View) -> Vec<String> {
    let mut problems = problems(&view.deployment);
    if view.nodes.is_none() && view.deployment.spec.strategy.type_ == IN_PLACE_UPDATE {
        problems.push(
            "spec.strategy.type: in-place updates are not supported if running without a target cluster: \
             use RollingUpdate or Recreate"
                .to_owned(),
        );
    }
    problems
}

/// Applies the rules to the drafts. Returns the observed status and the time until the progress deadline.
fn work(rollout: &mut RolloutDraft) -> (MachineDeploymentStatus, Option<std::time::Duration>) {
    let found = revision::newest(rollout);
    let mut observed = status::compute(rollout, found);
    status::pause(rollout, &mut observed);
    if let Some(error) = &rollout.view.failure {
        status::not_created(rollout, &mut observed, error);
        return (observed, None);
    }
    if is_frozen(rollout) {
        return (observed, None);
    }
    trigger::mark(rollout);
    if revision::label_adopted(rollout) {
        return (observed, None);
    }
    revision::copy_last_scale(rollout);
    if let Some(newest) = found {
        revision::sync(rollout, newest);
    }
    if rollout.deployment.spec.paused {
        if scale::is_due(rollout, found) {
            scale::scale(rollout, found);
        }
        history::clean_up(rollout, found);
        return (observed, None);
    }
    if let Some(rollback) = rollout.deployment.spec.rollback_to.clone() {
        rollback::roll_back(rollout, rollback.revision);
        return (observed, None);
    }
    if scale::is_due(rollout, found) {
        scale::scale(rollout, found);
        return (observed, None);
    }
    let Some(newest) = with_newest(rollout, found, &mut observed) else {
        return (observed, None);
    };
    roll_out(rollout, newest);
    let wake = status::progress(rollout, Some(newest), &mut observed);
    let complete = status::is_complete(rollout, &observed);
    if complete {
        observed.rolled_out = template_hash(&rollout.deployment.spec.template);
        history::clean_up(rollout, Some(newest));
    }
    if complete || status::lacks_only_preserved(rollout, &observed) {
        nodes::enable_scale_down(rollout);
    }
    (observed, wake)
}

/// The newest set. If there is none, the plan creates it, and the next decision uses it.
fn with_newest(
    rollout: &mut RolloutDraft,
    found: Option<usize>,
    observed: &mut MachineDeploymentStatus,
) -> Option<usize> {
    if found.is_some() {
        return found;
    }
    let recreated = rollout.deployment.spec.strategy.type_ == RECREATE;
    if recreated && !recreate::empty(rollout, None) {
        status::progress(rollout, None, observed);
        return None;
    }
    if let Some(taken) = revision::create(rollout) {
        observed.collision_count = Some(observed.collision_count.unwrap_or_default().saturating_add(1));
        let mut plan = Plan::default();
        rollout.write_status(&mut plan, observed);
        rollout
            .plan
            .steps
            .extend(plan.steps.into_iter().map(|step| crate::steps::Step {
                reason: Reason::Collision(taken.clone()),
                ..step
            }));
    }
    None
}

fn roll_out(rollout: &mut RolloutDraft, newest: usize) {
    let old = revision::old_sets(rollout, Some(newest));
    let under_way = old.iter().any(|position| rollout.sets[*position].size() > 0);
    if !defect!(OldSetTaintStays) {
        nodes::untaint(rollout, newest);
    }
    if under_way && rollout.settings.keep_autoscaler_away {
        nodes::disable_scale_down_of_all(rollout);
    } else if rollout.settings.keep_autoscaler_away && !defect!(AutoscalerReturnsWhileDraining) {
        nodes::disable_scale_down_of_replacements(rollout);
    }
    match rollout.deployment.spec.strategy.type_.as_str() {
        RECREATE => {
            if recreate::empty(rollout, Some(newest)) {
                recreate::refill(rollout, newest);
            }
        }
        IN_PLACE_UPDATE => {
            in_place::taint(rollout, &old);
            in_place::update(rollout, newest);
        }
        _ => {
            for position in old {
                nodes::taint(rollout, position);
            }
            rolling::roll(rollout, newest);
        }
    }
}

fn is_frozen(rollout: &RolloutDraft) -> bool {
    let labels = rollout.deployment.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(keys::FREEZE_LABEL))
        .is_some_and(|value| value == keys::TRUE)
}

/// The deployment's sets. If sets must be adopted or released, this plan does only that.
fn claims(view: &View, plan: &mut Plan<Reason>) -> Vec<Arc<MachineSet>> {
    let owner = &view.deployment.metadata;
    let Some(selector) = &view.deployment.spec.selector else {
        return Vec::new();
    };
    let mut mine = Vec::new();
    for set in &view.sets {
        let name = || set.metadata.name.clone().unwrap_or_default();
        match claim(owner, selector, &set.metadata) {
            Claim::Mine => mine.push(Arc::clone(set)),
            Claim::Adopt => {
                let name = name();
                let action = OwnerAction::Adopt {
                    kind: Kind::Set,
                    name: name.clone(),
                    patch: adoption(&set.metadata, "MachineDeployment", owner),
                };
                plan.push(action, Reason::Adopted(name));
            }
            Claim::Release => {
                let name = name();
                let action = OwnerAction::Patch {
                    kind: Kind::Set,
                    name: name.clone(),
                    patch: release(&set.metadata, owner),
                };
                plan.push(action, Reason::LetGo(name));
            }
            Claim::Foreign => {}
        }
    }
    mine
}

/// Deletes the sets of a deployment that is being deleted, then removes its finalizer.
fn delete(mut rollout: RolloutDraft) -> Plan<Reason> {
    let view = rollout.view;
    if !has_finalizer(&view.deployment.metadata, keys::MACHINE_FINALIZER) {
        return Plan::default();
    }
    if rollout.sets.is_empty() {
        let patch = finalizer_patch(&view.deployment.metadata, keys::MACHINE_FINALIZER, false);
        let mut plan = Plan::default();
        plan.push(own(view, patch), Reason::Released);
        return plan;
    }
    let found = revision::newest(&rollout);
    let observed = status::compute(&rollout, found);
    for set in rollout.sets.iter().filter(|set| !set.is_leaving()) {
        let name = set.name().to_owned();
        let action = OwnerAction::deletion(Kind::Set, &set.set.metadata);
        rollout.plan.push(action, Reason::DeploymentDeleted(name));
    }
    rollout.finish(Some(observed))
}

fn refuse(view: &View, settings: Settings, text: &str, now: Timestamp) -> Plan<Reason> {
    let rollout = RolloutDraft::new(view, settings, now, Vec::new());
    let mut plan = Plan::default();
    rollout.write_status(&mut plan, &status::invalid(&view.deployment, text, now));
    let reason = Reason::Invalid(text.to_owned());
    if !plan.steps.is_empty() {
        let action = OwnerAction::RecordEvent {
            type_: EventType::Warning,
            reason: "InvalidSpec",
            message: text.to_owned(),
        };
        plan.push(action, reason);
    }
    plan
}

fn own(view: &View, patch: serde_json::Value) -> OwnerAction {
    OwnerAction::Patch {
        kind: Kind::Deployment,
        name: view.deployment.metadata.name.clone().unwrap_or_default(),
        patch,
    }
}
