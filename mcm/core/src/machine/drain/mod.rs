//! Drain: the pods of the machine's Node leave before its VM does.
//!
//! What lives here: the deletion's stage, its limits and texts. How pods are asked to go stands in [`engine`] and
//! [`volumes`], what is remembered in [`drain_memory`](super::drain_memory).

mod defects;
mod engine;
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
pub(super) use round::Limit;

const TERMINATING: &str = "Terminating";
/// A node that is not Ready for this long ends no pods any more.
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
    let dead = is_dead(pass) && !defect!(DeadNodeDrainedAsOthers);
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

/// Whether pods that should be evicted run on a Node that no drain has seen: it registered after the machine's drain, while
/// the VM could not be deleted.
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
    let step = step(pass, &concerned(pods), &limit);
    let sends_away = |action: &Action| matches!(action, Action::EvictPod { .. } | Action::DeletePod { .. });
    if step.actions.iter().any(sends_away)
        && let Some(cordon) = cordon_unseen(pass)
    {
        // Known then, it is drained in order.
        let plan = Plan::new(Reason::Draining { waiting: step.waiting });
        return plan.act(cordon).after(Duration::ZERO);
    }
    let mut plan = if step.is_done() {
        next(pass, Stage::Vm, DeletionNote::Drained).act(measured(pass))
    } else if step.errors.is_empty() {
        Plan::new(Reason::Draining { waiting: step.waiting }).after(step.wake)
    } else {
        let error = step.errors.join(", ");
        let text = StepText::deletion(Stage::Drain, DeletionNote::DrainFailed { error });
        let wake = step.wake.max(pass.settings.retry.short).min(left);
        advance(pass, State::Failed, text, wake)
    };
    // A question is the last thing in a plan: there is no status to be written before its answer.
    if step.asks() {
        plan = Plan::new(Reason::Draining { waiting: step.waiting });
    }
    plan.actions.splice(0..0, prepare.into_iter().chain(step.actions));
    plan.drain = Some(step.memory);
    plan
}

/// Nobody waits for the pods any longer: the Node takes no more of them, and those that it found are deleted once, so that
/// their owners replace them. What fails on the way is told, and holds the VM's deletion up no longer than that.
fn force(pass: &Pass) -> Plan {
    let failure = pass.view.failure.as_ref().filter(|failure| counts(failure));
    let pods = pass.view.pods.as_deref().map(concerned).unwrap_or_default();
    let cordon = cordon(pass).or_else(|| cordon_unseen(pass).filter(|_| !pods.is_empty()));
    let cordon = cordon.filter(|_| failure.is_none());
    if let (None, None, Some(node)) = (&pass.view.pods, failure, pass.node_name()) {
        // Not in production, where the caches are filled before anything is decided. Taken for none, the pods would end
        // along with their VM and nobody would have been told.
        let mut plan = Plan::new(Reason::PodsUnknown);
        plan.actions.extend(cordon);
        return plan.act(Action::ListPods { node: node.clone() });
    }
    let memory = by_force(pass, &pods);
    let asked = |pod: &Pod| memory.attempts.contains_key(&pod.uid);
    let found = |pod: &Pod| memory.by_force.iter().flatten().any(|uid| *uid == pod.uid);
    let left_to_ask: Vec<Pod> = pods.iter().filter(|pod| found(pod) && !asked(pod)).cloned().collect();
    let mut plan = match failure {
        None if !left_to_ask.is_empty() => Plan {
            drain: Some(memory),
            ..Plan::new(Reason::Draining { waiting: pods.len() }).after(Duration::ZERO)
        },
        Some(failure) => forced(pass, std::slice::from_ref(&failure.message)),
        None => forced(pass, &not_deleted(pass, &memory, &pods)),
    };
    plan.actions
        .splice(0..0, cordon.into_iter().chain(deletions(left_to_ask)));
    plan
}

/// Whether a drain by force tells of the failure. That the Node does not know why it goes, it does not.
fn counts(failure: &Failure) -> bool {
    !matches!(failure.action, Action::SetTerminatingCondition { .. })
}

/// What a drain by force remembers. It begins with the pods that are there at that moment: whatever comes to the Node
/// later, although it is cordoned, would come again and again.
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

/// The pods that are still there because their deletion failed.
fn not_deleted(pass: &Pass, memory: &DrainMemory, pods: &[Pod]) -> Vec<String> {
    let node = pass.node_name().map(NodeName::as_str).unwrap_or_default();
    let error = |pod: &Pod| match &memory.attempts.get(&pod.uid)?.outcome {
        EvictionOutcome::Accepted => None,
        EvictionOutcome::Refused => Some(round::not_asked(pod, "the API server is too busy", node)),
        EvictionOutcome::Failed(text) => Some(round::not_asked(pod, text, node)),
    };
    pods.iter().filter_map(error).collect()
}

/// How long the machine's pods took to leave.
fn measured(pass: &Pass) -> Action {
    let deleted = pass.machine().metadata.deletion_timestamp.as_ref();
    Action::Observe(Metric::DrainDuration(pass.since(deleted)))
}

/// The end of a drain by force.
fn forced(pass: &Pass, errors: &[String]) -> Plan {
    let note = if errors.is_empty() {
        DeletionNote::DrainedByForce
    } else {
        let error = errors.join(", ");
        DeletionNote::ForcedDrainFailed { error }
    };
    let mut plan = next(pass, Stage::VolumeAttachments, note).act(measured(pass));
    if left(pass).is_zero() && errors.is_empty() {
        let timeout = GoDuration(pass.settings.drain_timeout_of(pass.machine()));
        plan.reason = Reason::Stage(format!("the drain did not end within {timeout}: it is forced"));
    }
    Plan {
        drain: pass.view.drain.begun_anew(),
        ..plan
    }
}

/// The pods are deleted at once.
pub(super) fn deletions(pods: Vec<Pod>) -> impl Iterator<Item = Action> {
    pods.into_iter().map(|pod| Action::DeletePod {
        namespace: pod.namespace,
        name: pod.name,
        uid: pod.uid,
    })
}

/// The pods that have to go: a DaemonSet would make its own anew, and a mirror pod is not the API's to end. In the order
/// of their names.
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

/// Whether the node is not Ready, or cannot write its disk, for so long that it ends no pods.
pub(super) fn is_dead(pass: &Pass) -> bool {
    bad_for(pass).is_some_and(|time| time > DEAD_AFTER)
}

/// When that will be so unless the node recovers; `None`: it is already, or nothing is wrong.
fn dies_in(pass: &Pass) -> Option<Duration> {
    let left = DEAD_AFTER.checked_sub(bad_for(pass)?)?;
    // Times of conditions are whole seconds.
    Some(left + Duration::from_secs(1))
}

/// For how long the node has not been Ready, or has not been able to write its disk.
fn bad_for(pass: &Pass) -> Option<Duration> {
    let observed = pass
        .view
        .node
        .present()
        .and_then(|node| node.status.as_ref()?.conditions.as_ref());
    let conditions = observed.unwrap_or(&pass.machine().status.conditions);
    let bad = conditions.iter().filter(|condition| match condition.type_.as_str() {
        "Ready" => condition.status != "True",
        "ReadonlyFilesystem" => condition.status != "False",
        _ => false,
    });
    bad.map(|condition| pass.since(condition.last_transition_time.as_ref()))
        .max()
}

/// The label `force-deletion`, a Go boolean. What is none counts as false.
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

/// Tells the Node why it goes, unless it knows already or never carried a running machine.
pub(super) fn terminating_condition(pass: &Pass) -> Option<Action> {
    let node = pass.view.node.present()?;
    let known = |condition: &NodeCondition| condition.type_ == TERMINATING && condition.status == "True";
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if conditions.into_iter().any(known) || matches!(pass.phase(), None | Some(Phase::CrashLoopBackOff)) {
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

/// Whether this drain wanted to cordon a Node that it does not see. The API server's answer that there is none is as good as
/// having seen it go.
pub(super) fn asked_for_unseen(view: &View) -> bool {
    let cordoned = |failure: &Failure| matches!(failure.action, Action::CordonNode { .. });
    view.node == NodeView::Absent && view.failure.as_ref().is_some_and(cordoned)
}

/// A Node that this process never saw may be there all the same, as a watch may be late. Were it not cordoned, each pod that
/// goes would be replaced on it, without end.
fn cordon_unseen(pass: &Pass) -> Option<Action> {
    let node = pass.node_name()?.clone();
    (pass.view.node == NodeView::Absent).then_some(Action::CordonNode { node })
}

/// Nothing new is to be placed on the Node.
pub(super) fn cordon(pass: &Pass) -> Option<Action> {
    let node = pass.view.node.present()?;
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let node = name(node)?;
    (!cordoned).then_some(Action::CordonNode { node })
}
