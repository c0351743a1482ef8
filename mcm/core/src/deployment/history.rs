//! The revision history: old sets within the limit are kept for a rollback.

use super::rollout_draft::RolloutDraft;
use super::{Reason, revision};
use crate::steps::{Kind, OwnerAction};

/// Deletes the oldest empty sets beyond `revisionHistoryLimit`.
pub(super) fn clean_up(rollout: &mut RolloutDraft, newest: Option<usize>) {
    let Some(limit) = rollout.deployment.spec.revision_history_limit else {
        return;
    };
    let old = revision::old_sets(rollout, newest);
    let mut kept: Vec<usize> = old
        .into_iter()
        .filter(|position| !rollout.sets[*position].is_leaving())
        .collect();
    kept.sort_by_key(|position| revision::revision(&rollout.sets[*position]));
    let excess = kept.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for position in kept.into_iter().take(excess) {
        let set = &rollout.sets[position];
        let observed = set.set.status.observed_generation >= set.set.metadata.generation.unwrap_or_default();
        if set.size() > 0 || set.set.status.replicas != 0 || !observed {
            continue;
        }
        let name = set.name().to_owned();
        let action = OwnerAction::deletion(Kind::Set, &set.set.metadata);
        rollout.plan.push(action, Reason::Forgotten(name));
    }
}
