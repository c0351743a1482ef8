//! Rollback to an earlier template.

use mcm_api::keys;

use super::Reason;
use super::revision::{NOT_COPIED, revision};
use super::rollout_draft::RolloutDraft;
use crate::event::EventType;
use crate::steps::Kind;
use crate::template::{same_template, without_hash};

/// Executes and clears `spec.rollbackTo`; `requested` 0 means the previous revision.
pub(super) fn roll_back(rollout: &mut RolloutDraft, requested: i64) {
    rollout.deployment.spec.rollback_to = None;
    let name = rollout.name().to_owned();
    let revision = if requested == 0 {
        previous(rollout)
    } else {
        Some(requested)
    };
    let Some(revision) = revision else {
        return refuse(
            rollout,
            "DeploymentRollbackRevisionNotFound",
            "Unable to find last revision.".to_owned(),
        );
    };
    let Some(position) = rollout.sets.iter().position(|set| self::revision(set) == revision) else {
        let text = "Unable to find the revision to rollback to.".to_owned();
        return refuse(rollout, "DeploymentRollbackRevisionNotFound", text);
    };
    let set = rollout.sets[position].set.clone();
    if same_template(&set.spec.template, &rollout.deployment.spec.template) {
        let text = format!("The rollback revision contains the same template as current deployment {name:?}");
        return refuse(rollout, "DeploymentRollbackTemplateUnchanged", text);
    }
    rollout.deployment.spec.template = without_hash(&set.spec.template);
    let annotations = rollout.deployment.metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| NOT_COPIED.contains(&key.as_str()) || key == keys::LAST_SCALE_ANNOTATION);
    for (key, value) in set.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&key.as_str()) && key != keys::LAST_SCALE_ANNOTATION {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let reason = Reason::RolledBack(revision);
    rollout.because(Kind::Deployment, &name, reason.clone());
    let message = format!("Rolled back deployment {name:?} to revision {revision}");
    rollout.event(EventType::Normal, "DeploymentRollback", message, reason);
}

/// The second highest revision.
fn previous(rollout: &RolloutDraft) -> Option<i64> {
    let mut numbers: Vec<i64> = rollout.sets.iter().map(revision).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.get(1).copied().filter(|number| *number > 0)
}

fn refuse(rollout: &mut RolloutDraft, event: &'static str, text: String) {
    let name = rollout.name().to_owned();
    let reason = Reason::NoRollback(text.clone());
    rollout.because(Kind::Deployment, &name, reason.clone());
    rollout.event(EventType::Warning, event, text, reason);
}
