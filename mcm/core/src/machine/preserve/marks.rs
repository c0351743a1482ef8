//! The marks of a preservation on the Node and in the Machine's annotations, and their removal.
//!
//! `spec.unschedulable` belongs to users and is never changed. The removal restores the previous value of
//! cluster-autoscaler's annotation.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use mcm_api::keys;

use super::super::node::name;
use super::super::pass::Pass;
use super::super::{Action, MachinePatch, NodePatch};
use super::Facts;
use crate::preservation::{AUTOMATIC, PreservationRequest, Refusal};

const NO_SCHEDULE: &str = "NoSchedule";
const STOPPED: &str = "Preservation stopped.";
const STOPPED_EARLY: &str = "Preservation stopped while the node was drained.";
const BY_US: &str = "Preserved by MCM.";
const BY_USER: &str = "Preserved by user.";
const TRUE: &str = "true";

/// The desired marks of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// The machine is preserved and failed: no scale-down, and no new pods.
    Failed,
    /// The machine is preserved and serves: no scale-down.
    Serving,
    /// The machine is not preserved.
    None,
}

/// The change of the Node object. `remove_expired`: also removes the requests of an expired preservation.
pub(super) fn node_patch(pass: &Pass, marks: Marks, remove_expired: bool) -> Option<Action> {
    let node = pass.view.node.present()?;
    let mut patch = NodePatch {
        taints: taints(node, marks == Marks::Failed),
        ..NodePatch::default()
    };
    let setter = setter(pass, node);
    if marks == Marks::None {
        enable_scale_down(node, pass.view.owners_list.is_rolling(), setter, &mut patch.annotations);
    } else {
        disable_scale_down(node, setter, &mut patch.annotations);
    }
    if setter == Setter::AnotherController {
        let key = keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION.to_owned();
        patch.annotations.insert(key, None);
    }
    if remove_expired {
        remove_requests(node.metadata.annotations.as_ref(), &mut patch.annotations);
    }
    let node = name(node)?;
    (!patch.is_empty()).then_some(Action::PatchNode { node, patch })
}

/// The complete new list of the Node's taints; `None`: unchanged.
fn taints(node: &Node, wanted: bool) -> Option<Vec<Taint>> {
    let there = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    let ours = |taint: &Taint| taint.key == keys::PRESERVED_TAINT && taint.effect == NO_SCHEDULE;
    let has = there.iter().any(ours);
    if has == wanted {
        return None;
    }
    let mut taints: Vec<Taint> = there.into_iter().filter(|taint| !ours(taint)).collect();
    if wanted {
        taints.push(Taint {
            key: keys::PRESERVED_TAINT.to_owned(),
            effect: NO_SCHEDULE.to_owned(),
            ..Taint::default()
        });
    }
    Some(taints)
}

type Changes = BTreeMap<String, Option<String>>;

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Who else disabled scale-down of the Node, according to the annotation that is set with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setter {
    /// No other controller.
    None,
    /// A rollout, which enables scale-down again at its end.
    Rollout,
    /// Another controller's preservation: the machine has no deployment that could roll out.
    AnotherController,
}

fn setter(pass: &Pass, node: &Node) -> Setter {
    match annotation(node, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION) {
        None => Setter::None,
        Some(_) if pass.view.owners_list.may_roll() => Setter::Rollout,
        Some(_) => Setter::AnotherController,
    }
}

/// Sets the annotation, and records its previous value unless a rollout set it.
fn disable_scale_down(node: &Node, setter: Setter, changes: &mut Changes) {
    let now = annotation(node, keys::SCALE_DOWN_DISABLED_ANNOTATION);
    let recorded = annotation(node, keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION).is_some();
    if now != Some(TRUE) {
        changes.insert(keys::SCALE_DOWN_DISABLED_ANNOTATION.to_owned(), Some(TRUE.to_owned()));
    }
    let before = match setter {
        _ if recorded => return,
        Setter::Rollout => return,
        Setter::AnotherController => "",
        Setter::None => now.unwrap_or_default(),
    };
    let key = keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION.to_owned();
    changes.insert(key, Some(before.to_owned()));
}

/// Restores the previous value of the annotation: the recorded one, or none if another controller's preservation set
/// it.
fn enable_scale_down(node: &Node, rolling: bool, setter: Setter, changes: &mut Changes) {
    let recorded = annotation(node, keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION);
    if recorded.is_some() {
        changes.insert(keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION.to_owned(), None);
    }
    let before = match (setter, recorded) {
        (Setter::Rollout, _) | (Setter::None, None) => return,
        (_, Some(before)) => before,
        (Setter::AnotherController, None) => "",
    };
    if rolling && before.is_empty() {
        let ours = keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION.to_owned();
        changes.insert(ours, Some(TRUE.to_owned()));
        return;
    }
    let before = Some(before.to_owned()).filter(|before| !before.is_empty());
    if annotation(node, keys::SCALE_DOWN_DISABLED_ANNOTATION) != before.as_deref() {
        changes.insert(keys::SCALE_DOWN_DISABLED_ANNOTATION.to_owned(), before);
    }
}

fn remove_requests(annotations: Option<&BTreeMap<String, String>>, changes: &mut Changes) {
    let value = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    if value(keys::PRESERVE_ANNOTATION).is_some_and(|value| PreservationRequest::of(value).is_some()) {
        changes.insert(keys::PRESERVE_ANNOTATION.to_owned(), None);
    }
    if value(keys::PRESERVE_WHEN_FAILED_ANNOTATION) == Some(TRUE) {
        changes.insert(keys::PRESERVE_WHEN_FAILED_ANNOTATION.to_owned(), None);
    }
}

/// The change of the Machine's annotations: the value for an automatic preservation if the dialect has one, and the
/// removal of the requests of an expired preservation.
pub(super) fn machine_patch(pass: &Pass, facts: &Facts, kept: bool) -> Option<Action> {
    let annotations = pass.machine().metadata.annotations.as_ref();
    let value = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let mut changes = Changes::new();
    let marked = value(keys::PRESERVE_ANNOTATION) == Some(AUTOMATIC);
    let automatic = kept && facts.by() == mcm_api::PreservedBy::Auto && pass.settings.preservation.marks_automatic();
    if marked && !automatic {
        changes.insert(keys::PRESERVE_ANNOTATION.to_owned(), None);
    } else if automatic && value(keys::PRESERVE_ANNOTATION).is_none() {
        changes.insert(keys::PRESERVE_ANNOTATION.to_owned(), Some(AUTOMATIC.to_owned()));
    }
    if !kept && facts.now.expired_before {
        remove_requests(annotations, &mut changes);
        let copy = [
            keys::LAST_APPLIED_PRESERVE_ANNOTATION,
            keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION,
        ];
        let removed = changes.contains_key(keys::PRESERVE_ANNOTATION);
        changes.extend(
            copy.into_iter()
                .filter(|key| removed && value(key).is_some())
                .map(|key| (key.to_owned(), None)),
        );
    }
    let patch = MachinePatch {
        annotations: changes,
        ..MachinePatch::default()
    };
    (!patch.is_empty()).then_some(Action::PatchMachine(patch))
}

/// The change of the Node condition; `None`: no change. The message keeps its text about the drain.
pub(super) fn condition(pass: &Pass, facts: &Facts, status: bool, message: &str) -> Option<Action> {
    let node = pass.view.node.present()?;
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut all = conditions.into_iter().flatten();
    let known: Option<&NodeCondition> = all.find(|condition| condition.type_ == keys::PRESERVED_CONDITION);
    if !status {
        return ended(node, known, message);
    }
    let reason = match facts.by() {
        mcm_api::PreservedBy::Auto => BY_US,
        _ => BY_USER,
    };
    let current_message = known.and_then(|known| known.message.as_deref()).unwrap_or_default();
    let same = known.is_some_and(|known| known.status == "True" && known.reason.as_deref() == Some(reason));
    if same && current_message.ends_with(message) {
        return None;
    }
    let drained = known.filter(|known| known.status == "True" && !message.starts_with("Preserved node"));
    let before = drained
        .and_then(|_| current_message.split_once("Machine preserved until"))
        .map(|(before, _)| before);
    Some(Action::SetPreservedCondition {
        node: name(node)?,
        status,
        reason: reason.to_owned(),
        message: format!("{}{message}", before.unwrap_or_default()),
    })
}

/// The Node condition after a preservation; `None`: no change. A preservation that ends while its node is drained was never
/// reported there, and its taint shows that it began.
fn ended(node: &Node, known: Option<&NodeCondition>, message: &str) -> Option<Action> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let began = taints.into_iter().any(|taint| taint.key == keys::PRESERVED_TAINT);
    let was_preserved = known.is_some_and(|known| known.status == "True");
    let reported = known.is_some_and(|known| known.message.as_deref() == Some(message));
    let is_new = was_preserved || began && !reported;
    is_new.then(|| {
        Some(Action::SetPreservedCondition {
            node: name(node)?,
            status: false,
            reason: if was_preserved { STOPPED } else { STOPPED_EARLY }.to_owned(),
            message: message.to_owned(),
        })
    })?
}

/// The Node condition of a failing machine that is not preserved although that is requested.
pub(super) fn refused(pass: &Pass, why: Refusal) -> Option<Action> {
    let node = pass.view.node.present()?;
    let reason = match why {
        Refusal::RollingOut => "Preservation refused: rollout in progress.",
        Refusal::MaximumReached => "Preservation refused: maximum reached.",
    };
    Some(Action::SetPreservedCondition {
        node: name(node)?,
        status: false,
        reason: reason.to_owned(),
        message: format!("The machine failed and is replaced: {why}."),
    })
}
