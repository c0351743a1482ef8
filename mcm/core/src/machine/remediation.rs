//! What the owner of a machine does when a health check requests its replacement: the machine becomes Failed, by the same
//! rules as after a health timeout, and its set replaces it. The condition `OwnerRemediated` reports the progress.

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use mcm_api::{MachineStatus, Phase, keys};

use super::pass::Pass;
use super::{Plan, Reason, defects, health};
use crate::failure::MARKED_UNHEALTHY;
use crate::health_check::set_condition;
use crate::preservation::shown;
use crate::remediation::{CANNOT_BE_REMEDIATED, Rank, is_skipped};

/// Other machines are replaced first, or the machine must not be deleted now.
const DEFERRED: &str = "RemediationDeferred";
/// The machine is Failed, and its set deletes it.
const DELETING: &str = "MachineDeleting";

/// The progress of a requested replacement.
#[derive(Debug, PartialEq, Eq)]
enum ReplacementProgress {
    /// There is none.
    None,
    /// The machine has recovered before it was replaced.
    Withdrawn,
    /// It must wait, for this reason.
    Deferred(String),
    /// A rollout replaces it.
    Cannot,
    /// It becomes Failed now.
    Due,
    /// It is Failed, and its set replaces it.
    Deleting,
}

/// The plan that makes the machine Failed, if it is the next one to be replaced.
pub(super) fn decide(pass: &Pass) -> Option<Plan> {
    let status = &pass.machine().status;
    if progress_of(pass, status) != ReplacementProgress::Due {
        return None;
    }
    let checked = status.condition(keys::HEALTH_CHECK_SUCCEEDED);
    let why = checked
        .and_then(|condition| condition.reason.clone())
        .unwrap_or_default();
    let description = format!(
        "Machine {} {MARKED_UNHEALTHY}: {why}. Updating machine phase to Failed. Node Conditions: {}",
        pass.name(),
        health::describe(status)
    );
    Some(health::give_up(
        pass,
        Plan::new(Reason::RemediationRequested(why)),
        description,
    ))
}

/// Adds the progress to the status that the plan writes; a plan that does nothing else writes it alone.
pub(super) fn report(pass: &Pass, mut plan: Plan) -> Plan {
    let machine = pass.machine();
    let deleting = machine.metadata.deletion_timestamp.is_some();
    if deleting || pass.view.failure.is_some() || plan.status.is_none() && !plan.actions.is_empty() {
        return plan;
    }
    let status = plan.status.as_ref().unwrap_or(&machine.status);
    let progress = progress_of(pass, status);
    let mut conditions = status.conditions.clone();
    let wait = change(&mut conditions, &progress, pass);
    if conditions != status.conditions {
        let alone = plan.status.is_none();
        let mut written = MachineStatus {
            conditions,
            ..status.clone()
        };
        written.current_status.phase = shown(&written, pass.settings.preservation);
        plan.status = Some(written);
        if alone {
            let text = match &progress {
                ReplacementProgress::Deferred(why) => why.clone(),
                progress => format!("{progress:?}").to_lowercase(),
            };
            plan.reason = Reason::Remediation(text);
        }
    }
    match (wait, plan.wake) {
        (Some(wait), wake) => plan.after(wake.map_or(wait, |wake| wake.min(wait))),
        (None, _) => plan,
    }
}

/// Changes the condition; returns when to decide again, if no change of the machine triggers that.
fn change(conditions: &mut Vec<NodeCondition>, progress: &ReplacementProgress, pass: &Pass) -> Option<Duration> {
    let mut set = |reason: &str, message: &str| {
        set_condition(
            conditions,
            keys::OWNER_REMEDIATED,
            false,
            reason,
            message,
            &pass.stamp(),
        );
    };
    let soon = Some(pass.settings.retry.short);
    match progress {
        ReplacementProgress::None | ReplacementProgress::Due => None,
        ReplacementProgress::Withdrawn => {
            conditions.retain(|condition| condition.type_ != keys::OWNER_REMEDIATED);
            None
        }
        ReplacementProgress::Deferred(why) => {
            set(DEFERRED, why);
            soon
        }
        ReplacementProgress::Cannot => {
            set(
                CANNOT_BE_REMEDIATED,
                "a rollout that is in progress replaces the machine",
            );
            soon
        }
        ReplacementProgress::Deleting => {
            set(DELETING, "");
            None
        }
    }
}

fn progress_of(pass: &Pass, status: &MachineStatus) -> ReplacementProgress {
    let machine = pass.machine();
    let phase = status.current_status.base();
    let is_failed = phase == Some(&Phase::Failed) && !status.is_kept();
    if !status.is_remediation_requested() {
        let is_false = |type_| {
            status
                .condition(type_)
                .is_some_and(|condition| condition.status == "False")
        };
        let was_requested = is_false(keys::OWNER_REMEDIATED) && !is_failed && phase != Some(&Phase::Terminating);
        return if was_requested {
            ReplacementProgress::Withdrawn
        } else {
            ReplacementProgress::None
        };
    }
    if crate::ownership::controller(&machine.metadata).is_none() || phase == Some(&Phase::Terminating) {
        return ReplacementProgress::None;
    }
    if is_failed {
        return ReplacementProgress::Deleting;
    }
    if status.is_kept() {
        let expiry = status.current_status.preserve_expiry_time.as_ref();
        let until = expiry.map_or_else(|| "it is drained".to_owned(), |expiry| format!("until {}", expiry.0));
        return ReplacementProgress::Deferred(format!("the machine is preserved: {until}"));
    }
    if status.is_preserved() {
        // Becoming Failed with a request that is not removed yet would preserve it once more.
        return ReplacementProgress::Deferred("the preservation of the machine ends".to_owned());
    }
    if is_skipped(&machine.metadata) && !defect!(PausedMachinesAreRemediated) {
        return ReplacementProgress::Deferred("an annotation excludes the machine from remediation".to_owned());
    }
    if phase == Some(&Phase::InPlaceUpdating) {
        return ReplacementProgress::Deferred("the machine is updated in place".to_owned());
    }
    if pass.view.owner_state.is_rolled_out {
        return ReplacementProgress::Cannot;
    }
    turn(pass)
}

/// Whether the machine is among the next ones of its deployment to be replaced.
fn turn(pass: &Pass) -> ReplacementProgress {
    let replaced = health::replaced_siblings(pass);
    let limit = pass.view.owner_state.max_in_flight;
    let before = |rank: &Rank| Rank::of(pass.machine()).is_some_and(|own| *rank < own);
    let mut first: Vec<&str> = pass
        .view
        .siblings
        .iter()
        .filter(|sibling| sibling.requested.as_ref().is_some_and(before))
        .map(|sibling| sibling.name.as_str())
        .filter(|name| !replaced.contains(*name))
        .collect();
    first.sort_unstable();
    first.dedup();
    if defect!(DeferredMachinesUseBudget) && defects::waiting_exhaust_budget(pass, replaced.len(), limit) {
        return ReplacementProgress::Deferred("too many machines are remediated".to_owned());
    }
    if replaced.len() + first.len() < limit {
        return ReplacementProgress::Due;
    }
    let others: Vec<&str> = replaced.iter().map(String::as_str).chain(first).take(3).collect();
    ReplacementProgress::Deferred(format!(
        "at most {limit} machine(s) of the deployment are replaced at the same time, and {} come(s) first",
        others.join(", ")
    ))
}
