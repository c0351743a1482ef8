//! In-place update of one machine: labels on the Node have request and result, and the Node condition `InPlaceUpdate`
//! has the progress. The Node is drained before its update.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use mcm_api::{MachineStatus, Operation, Phase, State, keys};

use super::node::name;
use super::pass::Pass;
use super::{Action, NodePatch, Plan, Reason, drain};
use crate::event::EventType;

const CANDIDATE: &str = "CandidateForUpdate";
const SELECTED: &str = "SelectedForUpdate";
const DRAINED: &str = "DrainSuccessful";
const READY: &str = "ReadyForUpdate";
const SUCCESSFUL: &str = "UpdateSuccessful";
const FAILED: &str = "UpdateFailed";
/// How long a forced drain may take.
const FORCED: Duration = Duration::from_mins(1);

/// Whether the Node is being drained for an in-place update.
pub fn is_drained_in_place(node: &Node) -> bool {
    condition(node).is_some_and(|condition| condition.reason.as_deref() == Some(SELECTED))
}

/// The next step of an in-place update; `None`: there is none.
pub(super) fn decide(pass: &Pass) -> Option<Plan> {
    let node = pass.view.node.present()?;
    if let Some((reason, message)) = by_labels(node) {
        return mark(node, reason, message);
    }
    match condition(node)?.reason.as_deref()? {
        // A Failed machine is not updated: it is replaced, or preserved as it is.
        SELECTED | DRAINED if pass.phase() == Some(&Phase::Failed) => None,
        SELECTED => drained(pass, node),
        DRAINED => {
            let plan = mark(node, READY, "Node is ready for in-place update".to_owned())?;
            Some(plan.after(pass.settings.retry.medium))
        }
        _ => None,
    }
}

/// Records the result of the update in the Node's labels; `None`: there is none yet, or it is recorded.
pub(super) fn result(pass: &Pass, node: &Node, copied: &MachineStatus) -> Option<Plan> {
    if !matches!(pass.phase(), Some(Phase::InPlaceUpdating | Phase::InPlaceUpdateFailed)) {
        return None;
    }
    let name = pass.name();
    let (phase, state, description) = match label(node, keys::UPDATE_RESULT_LABEL)? {
        "successful" => (
            Phase::InPlaceUpdateSuccessful,
            State::Successful,
            format!("Machine {name} successfully updated dependencies"),
        ),
        "failed" if pass.phase() == Some(&Phase::InPlaceUpdating) => (
            Phase::InPlaceUpdateFailed,
            State::Failed,
            format!("Machine {name} failed to update dependencies: {}", failed_reason(node)),
        ),
        _ => return None,
    };
    let reason = Reason::UpdatedInPlace(phase.to_string());
    let operation = pass.operation(Operation::InPlaceUpdate, state, description.clone());
    let status = MachineStatus {
        conditions: copied.conditions.clone(),
        ..operation
    };
    let plan = Plan::new(reason).after(Duration::ZERO);
    Some(pass.report(
        plan,
        pass.enter(status, phase, false),
        EventType::Normal,
        "UpdatedInPlace",
        description,
    ))
}

/// Whether the machine is Failed because its update failed. It is replaced even if its Node is healthy: no controller
/// would restart the update, and the rollout would wait for it forever.
pub(super) fn is_given_up(pass: &Pass, node: &Node) -> bool {
    let operation = pass.last_step().and_then(|step| step.operation.as_ref());
    pass.phase() == Some(&Phase::Failed)
        && operation == Some(&Operation::InPlaceUpdate)
        && label(node, keys::UPDATE_RESULT_LABEL) != Some(keys::UPDATE_SUCCESSFUL)
}

/// The condition that follows from the labels; `None`: no change.
fn by_labels(node: &Node) -> Option<(&'static str, String)> {
    label(node, keys::CANDIDATE_FOR_UPDATE_LABEL)?;
    let selected = label(node, keys::SELECTED_FOR_UPDATE_LABEL).is_some();
    let result = label(node, keys::UPDATE_RESULT_LABEL);
    let reason = condition(node).map(|condition| condition.reason.as_deref().unwrap_or_default());
    match (reason, result) {
        (None, _) | (Some(SUCCESSFUL), None) => Some((CANDIDATE, "Node is a candidate for in-place update".to_owned())),
        (Some(CANDIDATE), _) if selected => Some((SELECTED, "Node is selected for in-place update".to_owned())),
        (Some(reason), Some("successful")) if reason != SUCCESSFUL => {
            Some((SUCCESSFUL, "Node in-place update successful".to_owned()))
        }
        (Some(reason), Some("failed")) if reason != FAILED => {
            Some((FAILED, format!("Node in-place update failed: {}", failed_reason(node))))
        }
        _ => None,
    }
}

fn mark(node: &Node, reason: &str, message: String) -> Option<Plan> {
    let action = Action::SetNodeCondition {
        node: name(node)?,
        type_: keys::IN_PLACE_UPDATE_CONDITION.to_owned(),
        reason: reason.to_owned(),
        message: message.clone(),
    };
    let plan = Plan::new(Reason::InPlaceUpdate(message)).act(action);
    Some(plan.after(Duration::ZERO))
}

/// Drains the Node; afterwards changes the machine's phase, then the Node's condition.
fn drained(pass: &Pass, node: &Node) -> Option<Plan> {
    let limit = limit(pass, node);
    let prepare: Vec<Action> = cordon(node).into_iter().collect();
    let Some(pods) = &pass.view.pods else {
        return Some(Plan {
            actions: prepare,
            ..Plan::new(Reason::PodsUnknown).after(pass.settings.retry.short)
        });
    };
    let pods = drain::concerned(pods);
    if limit.forced && !pods.is_empty() {
        let deletions = if limit.requested {
            drain::deletions(pods).collect()
        } else {
            drain::Removal::of(pass, pods).actions()
        };
        let plan = drain_ended(pass, node)?;
        return Some(Plan {
            actions: prepare.into_iter().chain(deletions).chain(plan.actions).collect(),
            ..plan
        });
    }
    let step = drain::step(pass, &pods, &limit.limit);
    let mut plan = if step.is_done() {
        drain_ended(pass, node)?
    } else if step.ends_with_query() {
        Plan::new(Reason::Draining { waiting: step.waiting })
    } else if step.errors.is_empty() {
        Plan::new(Reason::Draining { waiting: step.waiting }).after(step.wake)
    } else {
        let text = format!(
            "Drain failed due to - {}. Will retry in next sync. Initiate node drain",
            step.errors.join(", ")
        );
        let wake = step.wake.max(pass.settings.retry.short);
        let status = pass.operation(Operation::DrainNode, State::Processing, text.clone());
        let plan = Plan::new(Reason::Draining { waiting: step.waiting }).after(wake);
        pass.report(plan, status, EventType::Warning, "DrainBlocked", text)
    };
    plan.actions.splice(0..0, prepare.into_iter().chain(step.actions));
    plan.drain = Some(step.memory);
    Some(plan)
}

/// Cordons the Node until it is updated. An annotation records whether it was cordoned before, so that a user's cordon
/// stays afterwards. If a user uncordons the Node during the update, it is cordoned again, and uncordoned at the end.
fn cordon(node: &Node) -> Option<Action> {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let annotations = node.metadata.annotations.as_ref();
    let is_recorded = annotations.is_some_and(|all| all.contains_key(keys::CORDONED_BEFORE_UPDATE_ANNOTATION));
    if cordoned && is_recorded {
        return None;
    }
    let before = (
        keys::CORDONED_BEFORE_UPDATE_ANNOTATION.to_owned(),
        Some(cordoned.to_string()),
    );
    Some(Action::PatchNode {
        node: name(node)?,
        patch: NodePatch {
            annotations: [before].into(),
            unschedulable: (!cordoned).then_some(true),
            ..NodePatch::default()
        },
    })
}

fn drain_ended(pass: &Pass, node: &Node) -> Option<Plan> {
    if pass.phase() == Some(&Phase::InPlaceUpdating) {
        return mark(node, DRAINED, "Node draining successful".to_owned());
    }
    let text = format!("Machine {} is undergoing an in-place update", pass.name());
    let status = pass.operation(Operation::InPlaceUpdate, State::Processing, text.clone());
    let status = pass.enter(status, Phase::InPlaceUpdating, false);
    let plan = Plan::new(Reason::InPlaceUpdate(text)).after(Duration::ZERO);
    Some(Plan {
        status: Some(status),
        ..plan
    })
}

struct DrainLimit {
    forced: bool,
    /// Whether a user forces the drain with the label.
    requested: bool,
    limit: drain::Limit,
}

/// The limit of the drain. A drain is forced once its timeout since the selection of the Node has passed, if the
/// machine has the label `force-drain`, or if the node is dead.
fn limit(pass: &Pass, node: &Node) -> DrainLimit {
    let timeout = pass.settings.drain_timeout_of(pass.machine());
    let selected = condition(node).and_then(|condition| condition.last_transition_time.as_ref());
    let elapsed = selected.map_or(Duration::ZERO, |time| since(time.0, pass.now));
    let labels = pass.machine().metadata.labels.as_ref();
    let requested = labels
        .and_then(|all| all.get(keys::FORCE_DRAIN_LABEL))
        .map(String::as_str)
        == Some("True");
    let left = timeout.saturating_sub(elapsed);
    let forced = requested || left.is_zero() || drain::is_dead(pass);
    DrainLimit {
        forced,
        requested,
        limit: drain::Limit {
            left: if forced { FORCED } else { left },
            evictions: pass.settings.max_evict_retries_of(pass.machine()),
        },
    }
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

fn condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == keys::IN_PLACE_UPDATE_CONDITION)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

fn failed_reason(node: &Node) -> &str {
    let annotations = node.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(keys::UPDATE_FAILED_REASON_ANNOTATION))
        .map(String::as_str)
        .unwrap_or_default()
}
