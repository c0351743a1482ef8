//! The order of the rules about one machine.

use jiff::Timestamp;
use mcm_api::{Operation, Phase, keys};

use super::pass::{Pass, last_step};
use super::problem::problem;
use super::{
    Action, Failure, NodeView, Plan, Reason, Settings, View, claim, creation, deletion, drain, health, in_place,
    migration, node, preserve, remediation, update, validation,
};
use crate::finalizer::has_finalizer;
use crate::preservation::without_sub_phase;

/// The plan for a machine.
///
/// The function keeps no state between calls: a process that dies between two actions leaves just another view.
pub fn decide(view: &View, settings: &Settings, now: Timestamp) -> Plan {
    if !defect!(NodeOfOtherVmTaken)
        && let Some(plan) = node::of_former_vm(view)
    {
        return plan;
    }
    let corrected = corrected(view);
    let view = corrected.as_ref().unwrap_or(view);
    let plain = without_sub_phase(&view.machine).map(|machine| View {
        machine,
        ..view.clone()
    });
    let pass = Pass::new(plain.as_ref().unwrap_or(view), settings, now);
    let plan = preserve::combine_with_preservation(
        &pass,
        without_preservation(&pass),
        view.machine.status.current_status.phase.as_ref(),
    );
    remediation::report(&pass, plan)
}

/// The view without a Node that does not exist or that is not known to belong to the machine, and without a failure that
/// an immediate retry resolves; `None`: the view needs no correction.
fn corrected(view: &View) -> Option<View> {
    let failure = view.failure.as_ref();
    let absent = failure.is_some_and(|failure| failure.not_found && failure.action.node().is_some());
    let again = !view.answers.is_empty() && failure.is_some_and(Failure::is_record_conflict);
    let again = again && !defect!(UnwrittenProviderIdForgotten);
    let foreign = view.node_of_other.is_some()
        || node::is_of_another_vm(view) && !defect!(NodeOfOtherVmTaken)
        || claim::is_unconfirmed(view, last_step(&view.machine).as_ref());
    if !absent && !again && !foreign {
        return None;
    }
    let mut fixed = view.clone();
    if absent || again {
        fixed.failure = None;
    }
    if absent || foreign {
        fixed.node = NodeView::Absent;
    }
    if absent && drain::cordoned_unseen(view) {
        fixed.node = NodeView::Gone;
    }
    if foreign {
        fixed.pods = Some(Vec::new());
        fixed.volume_attachments.clear();
    }
    Some(fixed)
}

fn without_preservation(pass: &Pass) -> Plan {
    if pass.machine().metadata.deletion_timestamp.is_some() {
        return deletion::decide(pass);
    }
    if let Some(plan) = migration::decide(pass).filter(|_| carries_finalizer(pass)) {
        return plan;
    }
    let ignored = pass.view.failure.as_ref().filter(|failure| is_ignored(pass, failure));
    if let Some(failure) = &pass.view.failure
        && ignored.is_none()
    {
        let reason = Reason::ActionFailed(failure.message.clone());
        let again = || Plan::new(reason).again(failure, &pass.settings.retry);
        return still_updated(pass, failure).unwrap_or_else(again);
    }
    if !carries_finalizer(pass) {
        return Plan::new(Reason::FinalizerMissing)
            .act(Action::AddFinalizer)
            .after(std::time::Duration::ZERO);
    }
    if let Some(reason) = validation::machine_problem(pass) {
        return problem(pass, reason, Operation::Create);
    }
    if let Some(plan) = node::deleted(pass).or_else(|| node::mislabelled(pass)) {
        return plan;
    }
    if let Some(plan) = remediation::decide(pass) {
        return plan;
    }
    if defect!(MissingNodeStopsHealthCheck) && pass.node_name().is_some() && pass.view.node.present().is_none() {
        return pass.nothing();
    }
    let crash_loops = pass.phase() == Some(&Phase::CrashLoopBackOff);
    let skips_health = crash_loops && defect!(FailedCreationSeenAfterLongRetryOnly);
    let health = if pass.node_name().is_some() && pass.phase().is_some() && !skips_health {
        health::decide(pass)
    } else {
        None
    };
    let plan = match health {
        Some(plan) if plan.status.is_some() => plan,
        _ if creation::is_due(pass) => creation::decide(pass),
        health => {
            let waiting = health.unwrap_or_else(|| pass.nothing());
            match in_place::decide(pass).or_else(|| update::decide(pass)) {
                Some(plan) => sooner(plan, &waiting),
                None => waiting,
            }
        }
    };
    let plan = update::mark_in_flight(pass, plan);
    if ignored.is_some() {
        let retry = pass.settings.retry.short;
        let wake = plan.wake.map_or(retry, |wake| wake.min(retry));
        return plan.after(wake);
    }
    node::claimed(pass, plan)
}

/// `plan`, with the wake-up of `waiting` if that is earlier. A plan without a wake-up is decided again at once.
fn sooner(plan: Plan, waiting: &Plan) -> Plan {
    match (plan.wake, waiting.wake) {
        (Some(wake), Some(limit)) if limit < wake => plan.after(limit),
        _ => plan,
    }
}

fn carries_finalizer(pass: &Pass) -> bool {
    has_finalizer(&pass.machine().metadata, keys::MACHINE_FINALIZER)
}

/// The update of a VM, which continues although the report of its preservation failed.
fn still_updated(pass: &Pass, failure: &Failure) -> Option<Plan> {
    let is_report = matches!(
        failure.action,
        Action::SetPreservedCondition { .. } | Action::LeaveOwnersList
    );
    let update = update::decide(pass).filter(|_| is_report && !failure.conflict);
    update.filter(|plan| matches!(plan.actions.last(), Some(Action::Call(_))))
}

/// Whether the failed action only changes the Node. The health check continues.
fn is_ignored(pass: &Pass, failure: &Failure) -> bool {
    let ignored = match failure.action {
        Action::PatchNode { .. } | Action::SetNodeCapacity { .. } => true,
        // Explains why a failing machine is not preserved.
        Action::SetPreservedCondition { status, .. } => !status && pass.machine().status.preservation.is_none(),
        _ => false,
    };
    ignored && !failure.conflict
}
