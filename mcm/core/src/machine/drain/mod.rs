//! Drain: the pods leave the machine's Node before its VM is deleted.
//!
//! This module has the deletion's stage, its limits and texts; [`engine`] and [`volumes`] evict pods;
//! [`drain_memory`](super::drain_memory) has the state of a drain.

mod defects;
mod engine;
mod removal;
mod round;
mod volumes;

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use mcm_api::{GoDuration, NodeName, Phase, State, keys};

use super::deletion_note::DeletionNote;
use super::drain_memory::{DrainMemory, EvictionOutcome};
use super::last_step::StepText;
use super::node::name;
use super::pass::Pass;
use super::progress::{advance, next};
use super::{Action, Failure, Metric, NodeView, Plan, Pod, Reason, Stage, View};

pub(super) use engine::step;
pub(super) use removal::{Removal, is_tainted_as_stopped, unique_pods};
pub(super) use round::{Limit, Step};

const TERMINATING: &str = "Terminating";
/// A node that has not been Ready for this time no longer terminates pods.
const DEAD_AFTER: Duration = Duration::from_mins(5);

/// The next step of the drain.
pub(super) fn decide(pass: &Pass) -> Plan {
    if pass.node_name().is_none() && defect!(MissingNodeFailsDrain) {
        let error = "nodes \"\" not found".to_owned();
        let text = StepText::deletion(Stage::Drain, DeletionNote::DrainFailed { error });
        return advance(pass, State::Failed, text, pass.settings.retry.short);
    }
    if pass.node_name().is_none() {
        return next(pass, Stage::Vm, DeletionNote::DrainWithoutNode);
    }
    if forced_by_label(pass) {
        let label = keys::FORCE_DELETION_LABEL.to_owned();
        return next(pass, Stage::VolumeAttachments, DeletionNote::DrainSkipped { label });
    }
    if pass.view.node == NodeView::Unknown {
        return Plan::new(Reason::NodeUnknown).after(pass.settings.retry.short);
    }
    if defect!(BlockedDrainSkipsPodsWithVolumes | ForcedDrainSkipsPodsWithVolumes)
        && let Some(plan) = defects::without_pods_with_volumes(pass)
    {
        return plan;
    }
    let left = left(pass);
    let dead = is_dead(pass) && !defect!(DeadNodeDrainedAsOthers | UnreachableNodeDrained);
    if left.is_zero() || dead || defect!(DrainForcedAfterFirstError) && defects::failed_once(pass) {
        return force(pass);
    }
    if let Some(failure) = &pass.view.failure {
        let error = failure.message.clone();
        let note = match failure.action {
            Action::SetTerminatingCondition { .. } => DeletionNote::ConditionFailed { error },
            _ => DeletionNote::DrainFailed { error },
        };
        let text = StepText::deletion(Stage::Drain, note);
        let plan = advance(pass, State::Failed, text, Duration::ZERO);
        return plan.again(failure, &pass.settings.retry);
    }
    evict(pass, left)
}

/// Whether evictable pods run on a Node that was not drained: it registered after the machine's drain, while the VM
/// could not be deleted.
pub(super) fn is_due(pass: &Pass) -> bool {
    let waits = !left(pass).is_zero() && !is_dead(pass) && !forced_by_label(pass);
    let pods = pass.view.pods.as_deref().unwrap_or_default();
    waits && cordon(pass).is_some() && concerned(pods).iter().any(|pod| !pod.finished)
}

fn evict(pass: &Pass, left: Duration) -> Plan {
    let prepare: Vec<Action> = terminating_condition(pass).into_iter().chain(cordon(pass)).collect();
    let Some(pods) = &pass.view.pods else {
        let plan = Plan::new(Reason::PodsUnknown).after(pass.settings.retry.short);
        return Plan {
            actions: prepare,
            ..plan
        };
    };
    let limit = Limit {
        left,
        evictions: pass.settings.max_evict_retries_of(pass.machine()),
    };
    let pods = concerned(pods);
    let step = step(pass, &pods, &limit);
    let removes_pod = |action: &Action| matches!(action, Action::EvictPod { .. } | Action::DeletePod { .. });
    if step.actions.iter().any(removes_pod)
        && let Some(cordon) = cordon_unseen(pass)
    {
        // Once the Node is observed, it is drained in order.
        let plan = Plan::new(Reason::Draining { waiting: step.waiting });
        return plan.act(cordon).after(Duration::ZERO);
    }
    let mut plan = if step.is_done() {
        next(pass, Stage::Vm, DeletionNote::Drained).act(drain_duration(pass))
    } else if step.errors.is_empty() {
        wait(pass, &pods, &step)
    } else {
        let error = step.errors.join(", ");
        let text = StepText::deletion(Stage::Drain, DeletionNote::DrainFailed { error });
        let wake = step.wake.max(pass.settings.retry.short).min(left);
        advance(pass, State::Failed, text, wake)
    };
    // A query must be the last action of a plan without a status.
    if step.ends_with_query() {
        plan = Plan::new(Reason::Draining { waiting: step.waiting });
    }
    plan.actions.splice(0..0, prepare.into_iter().chain(step.actions));
    plan.drain = Some(step.memory);
    plan
}

/// Waits for the pods. The last operation names a pod whose eviction is refused, and what refuses it, for as long as it
/// does.
fn wait(pass: &Pass, pods: &[Pod], step: &Step) -> Plan {
    let reason = Reason::Draining { waiting: step.waiting };
    let note = round::blocked_note(pods, &step.memory);
    let known = pass.last_step().map(|last| &last.text);
    let was_blocked = matches!(
        known,
        Some(StepText::Deletion {
            note: Some(DeletionNote::DrainBlocked { .. }),
            ..
        })
    );
    // After a restart the memory is empty, and the pods are evicted again.
    let is_over = was_blocked && note.is_none() && !step.memory.attempts.is_empty();
    let text = StepText::deletion(Stage::Drain, note.clone());
    if (note.is_some() || is_over) && known != Some(&text) {
        let plan = advance(pass, State::Processing, text, step.wake);
        return Plan { reason, ..plan };
    }
    Plan::new(reason).after(step.wake)
}

/// The forced drain: cordons the Node, and deletes the pods that exist once, without a wait, so that their owners replace
/// them. Unique pods are deleted with their grace period; they leave the API when the VM is deleted. Failures are reported
/// and do not delay the deletion of the VM.
fn force(pass: &Pass) -> Plan {
    let failure = pass.view.failure.as_ref().filter(|failure| counts(failure));
    let pods = pass.view.pods.as_deref().map(concerned).unwrap_or_default();
    let cordon = cordon(pass).or_else(|| cordon_unseen(pass).filter(|_| !pods.is_empty()));
    let cordon = cordon.filter(|_| failure.is_none());
    if let (None, None, Some(node)) = (&pass.view.pods, failure, pass.node_name()) {
        // In production the caches are filled before any decision. If unknown pods were taken for no pods, they would
        // end with their VM without a deletion.
        let mut plan = Plan::new(Reason::PodsUnknown);
        plan.actions.extend(cordon);
        return plan.act(Action::ListPods { node: node.clone() });
    }
    let memory = by_force(pass, &pods);
    let attempted = |pod: &Pod| memory.attempts.contains_key(&pod.uid);
    let found = |pod: &Pod| memory.by_force.iter().flatten().any(|uid| *uid == pod.uid);
    let to_delete: Vec<Action> = pods
        .iter()
        .filter(|pod| found(pod) && !attempted(pod))
        .filter_map(|pod| removal::before_vm_deletion(pass, pod))
        .collect();
    let mut plan = match failure {
        None if !to_delete.is_empty() => Plan {
            drain: Some(memory),
            ..Plan::new(Reason::Draining { waiting: pods.len() }).after(Duration::ZERO)
        },
        Some(failure) => forced(pass, std::slice::from_ref(&failure.message)),
        None => forced(pass, &not_deleted(pass, &memory, &pods)),
    };
    plan.actions.splice(0..0, cordon.into_iter().chain(to_delete));
    plan
}

/// Whether a forced drain reports the failure. A missing condition `Terminating` is not reported.
fn counts(failure: &Failure) -> bool {
    !matches!(failure.action, Action::SetTerminatingCondition { .. })
}

/// The memory of a forced drain. It has the pods that exist at its start. Pods that come later although the Node is
/// cordoned would come back repeatedly, so they are ignored.
fn by_force(pass: &Pass, pods: &[Pod]) -> DrainMemory {
    let known = &pass.view.drain;
    if known.by_force.is_some() {
        return known.clone();
    }
    DrainMemory {
        by_force: Some(pods.iter().map(|pod| pod.uid.clone()).collect()),
        ..DrainMemory::default()
    }
}

/// Errors for the pods that still exist because their deletion failed.
fn not_deleted(pass: &Pass, memory: &DrainMemory, pods: &[Pod]) -> Vec<String> {
    let node = pass.node_name().map(NodeName::as_str).unwrap_or_default();
    let error = |pod: &Pod| match &memory.attempts.get(&pod.uid)?.outcome {
        EvictionOutcome::Accepted => None,
        EvictionOutcome::Refused => Some(round::eviction_error(pod, "the API server is too busy", node)),
        EvictionOutcome::Failed(text) => Some(round::eviction_error(pod, text, node)),
    };
    pods.iter().filter_map(error).collect()
}

/// The measurement of the drain's duration.
fn drain_duration(pass: &Pass) -> Action {
    let deleted = pass.machine().metadata.deletion_timestamp.as_ref();
    Action::Observe(Metric::DrainDuration(pass.since(deleted)))
}

/// The end of a forced drain.
fn forced(pass: &Pass, errors: &[String]) -> Plan {
    let note = if errors.is_empty() {
        DeletionNote::DrainedByForce
    } else {
        let error = errors.join(", ");
        DeletionNote::ForcedDrainFailed { error }
    };
    let mut plan = next(pass, Stage::VolumeAttachments, note).act(drain_duration(pass));
    if left(pass).is_zero() && errors.is_empty() {
        let timeout = GoDuration(pass.settings.drain_timeout_of(pass.machine()));
        plan.reason = Reason::Stage(format!("the drain did not end within {timeout}: it is forced"));
    }
    Plan {
        drain: pass.view.drain.reset(),
        ..plan
    }
}

/// Deletes the pods without a grace period.
pub(super) fn deletions(pods: Vec<Pod>) -> impl Iterator<Item = Action> {
    pods.into_iter().map(|pod| pod.deletion(Some(0)))
}

/// The pods that must leave, sorted by name: not those of DaemonSets, which would be recreated, nor mirror pods, which
/// cannot be deleted through the API.
pub(super) fn concerned(pods: &[Pod]) -> Vec<Pod> {
    let mut pods: Vec<Pod> = pods.iter().filter(|pod| !pod.daemon && !pod.mirror).cloned().collect();
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    pods
}

fn left(pass: &Pass) -> Duration {
    if defect!(DrainEndsByAttemptsOnly) {
        return Duration::from_hours(1000);
    }
    if defect!(DrainTimeoutFromPhaseBefore) {
        let elapsed = pass.since(pass.machine().status.current_status.last_update_time.as_ref());
        return pass.settings.drain_timeout_of(pass.machine()).saturating_sub(elapsed);
    }
    let elapsed = pass.since(pass.machine().metadata.deletion_timestamp.as_ref());
    pass.settings.drain_timeout_of(pass.machine()).saturating_sub(elapsed)
}

/// Whether the node has not been Ready, or not able to write its disk, for so long that it does not terminate pods.
pub(super) fn is_dead(pass: &Pass) -> bool {
    bad_for(pass).is_some_and(|time| time > DEAD_AFTER)
}

/// Whether a node whose drain is over does not confirm the end of its pods: it has not been Ready for the time after which a
/// node counts as dead, or for the drain's timeout if that is shorter. A node that cannot write its disk may be Ready.
pub(super) fn is_silent(pass: &Pass) -> bool {
    unready_for(pass).is_some_and(|time| time > silent_after(pass))
}

/// The time until the node of a drain that is over counts as silent unless it recovers; `None`: it is silent or Ready.
pub(super) fn silent_in(pass: &Pass) -> Option<Duration> {
    let left = silent_after(pass).checked_sub(unready_for(pass)?)?;
    Some(left + Duration::from_secs(1))
}

fn silent_after(pass: &Pass) -> Duration {
    DEAD_AFTER.min(pass.settings.drain_timeout_of(pass.machine()))
}

/// The time until the node counts as dead unless it recovers; `None`: it is dead or healthy.
fn dead_in(pass: &Pass) -> Option<Duration> {
    let left = DEAD_AFTER.checked_sub(bad_for(pass)?)?;
    // Times of conditions are whole seconds.
    Some(left + Duration::from_secs(1))
}

/// For how long the node has not been Ready, or has not been able to write its disk.
fn bad_for(pass: &Pass) -> Option<Duration> {
    let bad = conditions(pass)
        .iter()
        .filter(|condition| match condition.type_.as_str() {
            "Ready" => condition.status != "True",
            "ReadonlyFilesystem" => condition.status != "False",
            _ => false,
        });
    bad.map(|condition| pass.since(condition.last_transition_time.as_ref()))
        .max()
}

/// For how long the node has not been Ready; `None`: it is, or has not reported it.
fn unready_for(pass: &Pass) -> Option<Duration> {
    let unready = ready(pass).filter(|condition| condition.status != "True")?;
    Some(pass.since(unready.last_transition_time.as_ref()))
}

/// The node's condition Ready.
pub(super) fn ready<'a>(pass: &Pass<'a>) -> Option<&'a NodeCondition> {
    conditions(pass).iter().find(|condition| condition.type_ == "Ready")
}

/// The conditions of the Node, or the last ones that the machine's status has.
fn conditions<'a>(pass: &Pass<'a>) -> &'a [NodeCondition] {
    let node = pass.view.node.present().and_then(|node| node.status.as_ref());
    let observed = node.and_then(|status| status.conditions.as_ref());
    observed.unwrap_or(&pass.machine().status.conditions)
}

/// The label `force-deletion`, a Go boolean. Any other value counts as false.
fn forced_by_label(pass: &Pass) -> bool {
    if defect!(ForcedDeletionEvicts) {
        return false;
    }
    let labels = pass.machine().metadata.labels.as_ref();
    let value = labels
        .and_then(|all| all.get(keys::FORCE_DELETION_LABEL))
        .map(String::as_str);
    matches!(value, Some("1" | "t" | "T" | "TRUE" | "true" | "True"))
}

/// Sets the cause of the deletion on the Node, unless it is set or the machine was never running.
pub(super) fn terminating_condition(pass: &Pass) -> Option<Action> {
    let node = pass.view.node.present()?;
    let known = |condition: &NodeCondition| condition.type_ == TERMINATING && condition.status == "True";
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if conditions.into_iter().any(known) || pass.is_being_created() {
        return None;
    }
    let (reason, message) = match pass.phase() {
        Some(Phase::Failed) => ("Unhealthy", "Machine Controller is terminating failed machine"),
        _ => ("ScaleDown", "Machine Controller is scaling down machine"),
    };
    Some(Action::SetTerminatingCondition {
        node: name(node)?,
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}

/// Whether this drain tried to cordon a Node that its cache does not have. The API server's answer NotFound counts as
/// an observed deletion.
pub(super) fn cordoned_unseen(view: &View) -> bool {
    let cordoned = |failure: &Failure| matches!(failure.action, Action::CordonNode { .. });
    view.node == NodeView::Absent && view.failure.as_ref().is_some_and(cordoned)
}

/// A Node that this process never observed may exist, as a watch may be late. Without a cordon, evicted pods could be
/// recreated on it without end.
fn cordon_unseen(pass: &Pass) -> Option<Action> {
    let node = pass.node_name()?.clone();
    (pass.view.node == NodeView::Absent).then_some(Action::CordonNode { node })
}

/// Makes the Node unschedulable, unless it is.
pub(super) fn cordon(pass: &Pass) -> Option<Action> {
    let node = pass.view.node.present()?;
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let node = name(node)?;
    (!cordoned).then_some(Action::CordonNode { node })
}
