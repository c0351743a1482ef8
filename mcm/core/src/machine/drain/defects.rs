//! Defects that replace rules of a drain.

use super::{concerned, left};
use crate::machine::deletion_note::DeletionNote;
use crate::machine::last_step::LastStep;
use crate::machine::pass::Pass;
use crate::machine::progress::next;
use crate::machine::{Plan, Reason, Stage};

/// Skips pods with volumes: while eviction is disabled, or once the drain timeout is over.
pub(super) fn without_pods_with_volumes(pass: &Pass) -> Option<Plan> {
    let pods = concerned(pass.view.pods.as_deref()?);
    let with_volumes = pods.iter().filter(|pod| pod.moves_volumes()).count();
    if with_volumes == 0 {
        return None;
    }
    let none_may_be_evicted = pass.settings.max_evict_retries_of(pass.machine()) == 0;
    if defect!(BlockedDrainSkipsPodsWithVolumes) && none_may_be_evicted {
        return Some(Plan::new(Reason::Draining { waiting: with_volumes }).after(pass.settings.retry.short));
    }
    (defect!(ForcedDrainSkipsPodsWithVolumes) && left(pass).is_zero())
        .then(|| next(pass, Stage::Vm, DeletionNote::Drained))
}

/// Whether the drain had an error.
pub(super) fn failed_once(pass: &Pass) -> bool {
    pass.last_step().is_some_and(LastStep::failed)
}
