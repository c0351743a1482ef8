//! Combines successive transitions of a deletion, so that a stage with nothing to do costs no status write: that is a
//! request, a watch event and another pass of machine, set and deployment.

use jiff::Timestamp;

use super::{Action, Plan, Settings, View, decide};

/// The maximum number of transitions in one plan: a deletion has fewer stages.
const TRANSITIONS: usize = 6;

/// Decides as [`decide()`], and combines the transitions of a deletion that need no status write between them.
///
/// The status is written before a cloud call, after its answer, and before actions whose failure it describes. The process
/// may die at any point: the next one continues from the stage in the status, and every action is idempotent.
pub fn decide_ahead(view: &View, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = decide(view, settings, now);
    let is_deleting = view.machine.metadata.deletion_timestamp.is_some();
    if !is_deleting || view.failure.is_some() || !view.answers.is_empty() {
        return plan;
    }
    let mut ahead = None;
    for _ in 0..TRANSITIONS {
        let Some(status) = plan.status.as_ref().filter(|_| is_transition(&plan)) else {
            break;
        };
        let ahead = ahead.get_or_insert_with(|| view.clone());
        ahead.machine.status = status.clone();
        if let Some(drain) = &plan.drain {
            ahead.drain = drain.clone();
        }
        let next = decide(ahead, settings, now);
        let ends = next.status.is_none() && next.actions.contains(&Action::RemoveFinalizer);
        let continues = next.status.is_some() && next.actions.iter().all(is_preparation);
        if next.after_failure || !(ends || continues) {
            break;
        }
        plan = combined(plan, next);
    }
    plan
}

/// Whether the plan enters another stage at once, and that stage does not depend on a later observation of its actions.
fn is_transition(plan: &Plan) -> bool {
    let is_independent = |action: &Action| {
        is_preparation(action) || matches!(action, Action::DeleteNode { .. } | Action::RemoveNodeFinalizer { .. })
    };
    let is_immediate = plan.wake.is_some_and(|wake| wake.is_zero());
    is_immediate && !plan.after_failure && plan.actions.iter().all(is_independent)
}

/// Whether the next pass repeats the action after a failure, so that no status has to describe it.
fn is_preparation(action: &Action) -> bool {
    matches!(
        action,
        Action::SetTerminatingCondition { .. }
            | Action::CordonNode { .. }
            | Action::RecordEvent { .. }
            | Action::Observe(_)
    )
}

/// Both plans in one, with the reason of the first. The view of the second did not have the Node's condition yet.
fn combined(plan: Plan, next: Plan) -> Plan {
    let sets_condition = |action: &Action| matches!(action, Action::SetTerminatingCondition { .. });
    let is_set = plan.actions.iter().any(sets_condition);
    let mut actions = plan.actions;
    actions.extend(
        next.actions
            .into_iter()
            .filter(|action| !is_set || !sets_condition(action)),
    );
    Plan {
        actions,
        drain: next.drain.or(plan.drain),
        reason: plan.reason,
        ..next
    }
}
