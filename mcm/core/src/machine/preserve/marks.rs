//! What a preservation writes to the Node and to the Machine's annotations, and how it is taken back.
//!
//! A person's cordon is a person's: `spec.unschedulable` is never touched. cluster-autoscaler's annotation comes back as it
//! was before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use mcm_api::keys;

use super::super::node::name;
use super::super::pass::Pass;
use super::super::{Action, MachinePatch, NodePatch};
use super::Facts;
use crate::preservation::{AUTOMATIC, Asked};

const NO_SCHEDULE: &str = "NoSchedule";
const STOPPED: &str = "Preservation stopped.";
const BY_US: &str = "Preserved by MCM.";
const BY_USER: &str = "Preserved by user.";
const TRUE: &str = "true";

/// What a Node is to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// The machine is preserved and failed: the autoscaler keeps away, and so do new pods.
    Failed,
    /// The machine is preserved and serves: the autoscaler keeps away.
    Serving,
    /// The machine is not preserved.
    None,
}

/// What changes on the Node's object. `unasked`: requests that were kept for their time are removed.
pub(super) fn node_patch(pass: &Pass, marks: Marks, unasked: bool) -> Option<Action> {
    let node = pass.view.node.present()?;
    let mut patch = NodePatch {
        taints: taints(node, marks == Marks::Failed),
        ..NodePatch::default()
    };
    let setter = setter(pass, node);
    if marks == Marks::None {
        let_autoscaler_back(node, pass.view.ledger.is_rolling(), setter, &mut patch.annotations);
    } else {
        keep_autoscaler_away(node, setter, &mut patch.annotations);
    }
    if setter == Setter::AnotherController {
        let gone = keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION.to_owned();
        patch.annotations.insert(gone, None);
    }
    if unasked {
        remove_requests(node.metadata.annotations.as_ref(), &mut patch.annotations);
    }
    let node = name(node)?;
    (!patch.is_empty()).then_some(Action::PatchNode { node, patch })
}

/// All taints of the Node as they are to be; `None`: as they are.
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

/// Who else keeps cluster-autoscaler away from a Node, by the mark that is set with the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setter {
    /// Nobody who left a mark.
    Nobody,
    /// A rollout, which takes it away at its end.
    Rollout,
    /// Another controller's preservation: no deployment can mean a rollout by it.
    AnotherController,
}

fn setter(pass: &Pass, node: &Node) -> Setter {
    match annotation(node, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION) {
        None => Setter::Nobody,
        Some(_) if pass.view.ledger.may_roll() => Setter::Rollout,
        Some(_) => Setter::AnotherController,
    }
}

/// The annotation, and beside it what it was before, unless a rollout had set it already.
fn keep_autoscaler_away(node: &Node, setter: Setter, changes: &mut Changes) {
    let now = annotation(node, keys::SCALE_DOWN_DISABLED_ANNOTATION);
    let remembered = annotation(node, keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION).is_some();
    if now != Some(TRUE) {
        changes.insert(keys::SCALE_DOWN_DISABLED_ANNOTATION.to_owned(), Some(TRUE.to_owned()));
    }
    let before = match setter {
        _ if remembered => return,
        Setter::Rollout => return,
        Setter::AnotherController => "",
        Setter::Nobody => now.unwrap_or_default(),
    };
    let key = keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION.to_owned();
    changes.insert(key, Some(before.to_owned()));
}

/// The annotation is what it was before: as that is remembered, or not there, where another controller's preservation set it.
fn let_autoscaler_back(node: &Node, rolling: bool, setter: Setter, changes: &mut Changes) {
    let remembered = annotation(node, keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION);
    if remembered.is_some() {
        changes.insert(keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION.to_owned(), None);
    }
    let before = match (setter, remembered) {
        (Setter::Rollout, _) | (Setter::Nobody, None) => return,
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
    if value(keys::PRESERVE_ANNOTATION).is_some_and(|value| Asked::of(value).is_some()) {
        changes.insert(keys::PRESERVE_ANNOTATION.to_owned(), None);
    }
    if value(keys::PRESERVE_WHEN_FAILED_ANNOTATION) == Some(TRUE) {
        changes.insert(keys::PRESERVE_WHEN_FAILED_ANNOTATION.to_owned(), None);
    }
}

/// The Machine's annotations: the word for an automatic preservation where the dialect has one, and no request that was
/// kept for its time.
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
        let gone = changes.contains_key(keys::PRESERVE_ANNOTATION);
        changes.extend(
            copy.into_iter()
                .filter(|key| gone && value(key).is_some())
                .map(|key| (key.to_owned(), None)),
        );
    }
    let patch = MachinePatch {
        annotations: changes,
        ..MachinePatch::default()
    };
    (!patch.is_empty()).then_some(Action::PatchMachine(patch))
}

/// The Node condition as it is to be; `None`: it is so. What it says of the drain stays.
pub(super) fn condition(pass: &Pass, facts: &Facts, status: bool, message: &str) -> Option<Action> {
    let node = pass.view.node.present()?;
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut all = conditions.into_iter().flatten();
    let known: Option<&NodeCondition> = all.find(|condition| condition.type_ == keys::PRESERVED_CONDITION);
    let reason = match status {
        false => STOPPED,
        true if facts.by() == mcm_api::PreservedBy::Auto => BY_US,
        true => BY_USER,
    };
    let said = known.and_then(|known| known.message.as_deref()).unwrap_or_default();
    let value = if status { "True" } else { "False" };
    let same = known.is_some_and(|known| known.status == value && known.reason.as_deref() == Some(reason));
    let told = same && (!status || said.ends_with(message));
    if told || known.is_none() && !status {
        return None;
    }
    let drained = known.filter(|known| status && known.status == "True" && !message.starts_with("Preserved node"));
    let before = drained
        .and_then(|_| said.split_once("Machine preserved until"))
        .map(|(before, _)| before);
    Some(Action::SetPreservedCondition {
        node: name(node)?,
        status,
        reason: reason.to_owned(),
        message: format!("{}{message}", before.unwrap_or_default()),
    })
}
