//! InPlaceUpdate: machines are not replaced. The node of each machine is drained, the agent on the node updates it, and
//! the machine moves to the newest set.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use mcm_api::{Machine, Phase, keys};

use super::nodes::machines;
use super::rollout_draft::{RolloutDraft, is_updated};
use super::{Reason, nodes, revision, rolling, surge};
use crate::ownership::{controller, reference};
use crate::steps::Kind;

/// The taint that Kubernetes adds to an unschedulable node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// One step of an in-place update.
pub(super) fn update(rollout: &mut RolloutDraft, newest: usize) {
    let old = revision::old_sets(rollout, Some(newest));
    for position in &old {
        disable_scale_up(rollout, *position);
        mark_candidates(rollout, *position);
    }
    unmark(rollout, newest);
    let followed = follow(rollout, newest, &old);
    if followed || replace_kept(rollout, &old) || fill(rollout, newest, &old) {
        return;
    }
    select(rollout, newest, &old);
}

/// An old set does not replace the machines that move to the newest set.
fn disable_scale_up(rollout: &mut RolloutDraft, position: usize) {
    let Some(draft) = rollout.sets.get_mut(position).filter(|set| set.size() > 0) else {
        return;
    };
    let name = draft.name().to_owned();
    let labels = draft.set.metadata.labels.get_or_insert_default();
    if labels
        .insert(keys::SCALE_UP_DISABLED_LABEL.to_owned(), "true".to_owned())
        .is_none()
    {
        rollout.because(Kind::Set, &name, Reason::ScaleUpDisabled(name.clone()));
    }
}

fn mark_candidates(rollout: &mut RolloutDraft, position: usize) {
    for machine in machines(rollout, position) {
        let unmarked = |node: &Node| label(node, keys::CANDIDATE_FOR_UPDATE_LABEL) != Some("true");
        let Some(node) = rollout.node_to_change(&machine, unmarked) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let labels = node.metadata.labels.get_or_insert_default();
        if labels
            .insert(keys::CANDIDATE_FOR_UPDATE_LABEL.to_owned(), "true".to_owned())
            .is_none()
        {
            rollout.because(Kind::Node, &name, Reason::Candidate(name.clone()));
        }
    }
}

/// Nodes of the newest set are no candidates; the set may have been an old one before. A selected node keeps its
/// labels: its drain may have begun, and only a labelled node completes its update and becomes schedulable again.
fn unmark(rollout: &mut RolloutDraft, newest: usize) {
    for machine in machines(rollout, newest) {
        let phase = machine.status.current_status.phase.as_ref();
        let busy = matches!(phase, Some(Phase::InPlaceUpdating | Phase::InPlaceUpdateSuccessful));
        let selected =
            |node: &Node| busy || result(node).is_some() || label(node, keys::SELECTED_FOR_UPDATE_LABEL).is_some();
        let marked = |node: &Node| !selected(node) && label(node, keys::CANDIDATE_FOR_UPDATE_LABEL).is_some();
        let Some(node) = rollout.node_to_change(&machine, marked) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(labels) = &mut node.metadata.labels
            && labels.remove(keys::CANDIDATE_FOR_UPDATE_LABEL).is_some()
        {
            rollout.because(Kind::Node, &name, Reason::Untainted(name.clone()));
        }
    }
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn result(node: &Node) -> Option<&str> {
    label(node, keys::UPDATE_RESULT_LABEL)
}

fn is_handed_over(machine: &Machine) -> bool {
    let result = machine
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(keys::UPDATE_RESULT_LABEL));
    result.is_some_and(|result| result == keys::UPDATE_SUCCESSFUL) && is_updated(machine)
}

/// Adjusts the sizes to machines that changed their set, also after a crash between the writes; then their nodes become
/// schedulable. Returns whether a size changed.
fn follow(rollout: &mut RolloutDraft, newest: usize, old: &[usize]) -> bool {
    let mut changed = false;
    for position in old {
        let count = machines(rollout, *position).len() as i32;
        let from = rollout.sets.get(*position).map_or(0, |set| set.replicas());
        if count < from {
            changed |= resize(rollout, *position, count);
        }
    }
    let current = machines(rollout, newest);
    let handed_over: Vec<_> = current
        .iter()
        .filter(|machine| is_handed_over(machine))
        .cloned()
        .collect();
    let from = rollout.sets.get(newest).map_or(0, |set| set.replicas());
    let uncounted = (current.len() as i32)
        .saturating_sub(from)
        .min(handed_over.len() as i32);
    if uncounted > 0 {
        return resize(rollout, newest, from.saturating_add(uncounted)) | changed;
    }
    for machine in handed_over {
        let name = machine.metadata.name.clone().unwrap_or_default();
        if let Some(labels) = &mut rollout.machine(&machine).metadata.labels {
            labels.remove(keys::UPDATE_RESULT_LABEL);
        }
        rollout.because(Kind::Machine, &name, Reason::Counted(name.clone()));
    }
    for machine in current {
        reopen(rollout, &machine);
    }
    changed
}

fn resize(rollout: &mut RolloutDraft, position: usize, to: i32) -> bool {
    let Some(set) = rollout.sets.get(position) else {
        return false;
    };
    let (set, from) = (set.name().to_owned(), set.replicas());
    rollout.resize(position, to, Reason::Followed { set, from, to })
}

/// Uncordons the node of an updated machine. A taint keeps pods away until the node's critical components run.
fn reopen(rollout: &mut RolloutDraft, machine: &Arc<Machine>) {
    let updated = is_updated(machine) || defect!(SetChangedOnNodeWordAlone);
    let successful = |node: &Node| updated && result(node) == Some(keys::UPDATE_SUCCESSFUL);
    let Some(node) = rollout.node_to_change(machine, successful) else {
        return;
    };
    let name = node.metadata.name.clone().unwrap_or_default();
    if let Some(labels) = &mut node.metadata.labels {
        for key in [
            keys::CANDIDATE_FOR_UPDATE_LABEL,
            keys::SELECTED_FOR_UPDATE_LABEL,
            keys::UPDATE_RESULT_LABEL,
        ] {
            labels.remove(key);
        }
    }
    let mut cordoned_before = None;
    if let Some(annotations) = &mut node.metadata.annotations {
        annotations.remove(keys::UPDATE_FAILED_REASON_ANNOTATION);
        cordoned_before = annotations.remove(keys::CORDONED_BEFORE_UPDATE_ANNOTATION);
    }
    let spec = node.spec.get_or_insert_default();
    let taints = spec.taints.get_or_insert_default();
    taints.retain(|taint| taint.key != keys::PREFER_NO_SCHEDULE);
    // A cordon from before the drain was set by a user: it stays.
    if cordoned_before.as_deref() != Some("true") {
        spec.unschedulable = None;
        taints.retain(|taint| taint.key != UNSCHEDULABLE);
    }
    if !taints.iter().any(|taint| taint.key == keys::CRITICAL_COMPONENTS_TAINT) {
        taints.push(Taint {
            effect: "NoSchedule".to_owned(),
            key: keys::CRITICAL_COMPONENTS_TAINT.to_owned(),
            ..Taint::default()
        });
    }
    rollout.because(Kind::Node, &name, Reason::Reopened(name.clone()));
}

/// Preserved failed machines cannot be updated, neither automatically nor manually. Once the old sets have no other
/// machines, they are replaced. Returns whether a size changed.
fn replace_kept(rollout: &mut RolloutDraft, old: &[usize]) -> bool {
    let left: Vec<_> = old.iter().flat_map(|position| machines(rollout, *position)).collect();
    if left.is_empty() || !left.iter().all(|machine| machine.status.is_kept_failed()) {
        return false;
    }
    let mut changed = false;
    for position in old {
        let Some(set) = rollout.sets.get(*position).filter(|set| set.replicas() > 0) else {
            continue;
        };
        let (set, from) = (set.name().to_owned(), set.replicas());
        changed |= rollout.resize(*position, 0, Reason::KeptReplaced { set, from });
    }
    changed
}

/// Grows or shrinks the newest set towards its desired size. Returns whether anything changed.
fn fill(rollout: &mut RolloutDraft, newest: usize, old: &[usize]) -> bool {
    let wanted = rollout.replicas();
    let now = rollout.sets.get(newest).map_or(0, |set| set.replicas());
    if now == wanted {
        return false;
    }
    if now > wanted {
        return resize(rollout, newest, wanted);
    }
    let others: i32 = old
        .iter()
        .filter_map(|position| rollout.sets.get(*position))
        .fold(0, |sum: i32, set| sum.saturating_add(set.replicas()));
    let to = wanted.saturating_sub(others).min(surge::next_size(rollout, now));
    if now < to {
        return resize(rollout, newest, to);
    }
    hand_over(rollout, newest, old, wanted.saturating_sub(now))
        || (!rollout.is_manual() && now == 0 && rolling::grow(rollout, newest))
}

/// Moves up to `most` updated machines to the newest set.
fn hand_over(rollout: &mut RolloutDraft, newest: usize, old: &[usize], most: i32) -> bool {
    let mut moved = 0;
    for position in old {
        let mut left = 0;
        let current = machines(rollout, *position);
        // The set still has surplus machines to delete. If it handed machines over now, it would lose both.
        let size = rollout.sets.get(*position).map_or(0, |set| set.replicas());
        if usize::try_from(size).is_ok_and(|size| current.len() > size) {
            continue;
        }
        for machine in current {
            let busy = machine.status.current_status.phase == Some(Phase::InPlaceUpdating);
            let ready = is_updated(&machine) && !busy || defect!(SetChangedOnNodeWordAlone);
            let successful = rollout
                .node_of(&machine)
                .is_some_and(|node| result(node) == Some(keys::UPDATE_SUCCESSFUL));
            if ready && successful && moved + left < most {
                move_machine(rollout, &machine, *position, newest);
                left += 1;
            }
        }
        if left > 0 {
            let from = rollout.sets.get(*position).map_or(0, |set| set.replicas());
            resize(rollout, *position, from.saturating_sub(left).max(0));
            moved += left;
        }
    }
    let from = rollout.sets.get(newest).map_or(0, |set| set.replicas());
    moved > 0 && resize(rollout, newest, from.saturating_add(moved))
}

fn move_machine(rollout: &mut RolloutDraft, machine: &Arc<Machine>, from: usize, to: usize) {
    let selected = |rollout: &RolloutDraft, position: usize| -> BTreeMap<String, String> {
        let selector = rollout.sets.get(position).and_then(|set| set.set.spec.selector.clone());
        selector.and_then(|selector| selector.match_labels).unwrap_or_default()
    };
    let (old, new) = (selected(rollout, from), selected(rollout, to));
    let Some(owner) = rollout.sets.get(to).map(|set| set.set.metadata.clone()) else {
        return;
    };
    let name = machine.metadata.name.clone().unwrap_or_default();
    let before = controller(&machine.metadata).map(|reference| reference.uid.clone());
    let draft = rollout.machine(machine);
    let references = draft.metadata.owner_references.get_or_insert_default();
    references.retain(|reference| Some(&reference.uid) != before.as_ref());
    references.push(reference("MachineSet", &owner));
    let labels = draft.metadata.labels.get_or_insert_default();
    labels.retain(|key, _| !old.contains_key(key));
    labels.extend(new);
    labels.insert(keys::UPDATE_RESULT_LABEL.to_owned(), keys::UPDATE_SUCCESSFUL.to_owned());
    let set = owner.name.unwrap_or_default();
    rollout.because(
        Kind::Machine,
        &name,
        Reason::HandedOver {
            machine: name.clone(),
            set,
        },
    );
}

/// Chooses the nodes that are updated next.
fn select(rollout: &mut RolloutDraft, newest: usize, old: &[usize]) {
    let wanted = i64::from(rollout.replicas());
    let size =
        |rollout: &RolloutDraft, position: usize| rollout.sets.get(position).map_or(0, |set| i64::from(set.replicas()));
    let others: i64 = old.iter().map(|position| size(rollout, *position)).sum();
    if others == 0 {
        return;
    }
    let new = size(rollout, newest);
    if new == wanted {
        rolling::shrink(rollout, newest, old);
        return;
    }
    if rollout.is_manual() {
        return;
    }
    // A preserved failed machine is not updated: it is replaced at the end.
    let chosen = |position: &usize| {
        let machines = machines(rollout, *position).into_iter();
        machines
            .filter(|machine| rollout.sets[*position].is_chosen(machine) && !machine.status.is_kept_failed())
            .count() as i64
    };
    let busy: i64 = old.iter().map(chosen).sum();
    if busy + new >= wanted {
        return;
    }
    let least = (wanted - rollout.bounds().unavailable - rollout.kept_failed()).max(0);
    // A selected machine that still serves will stop soon. After a return to an earlier template the newest set can
    // have selected machines, too.
    let serving = |position: &usize| rollout.sets[*position].serving(rollout.now);
    let (serving_new, serving_old): (i64, i64) = (serving(&newest), old.iter().map(serving).sum());
    let possible = others + new - least - (new - serving_new).max(0) - busy;
    let mut budget = possible.min(serving_old + serving_new - least).min(wanted - new - busy);
    if budget <= 0 && busy == 0 {
        // No machine may become unavailable, so the rollout needs a surge machine, as at its start; scaling may have
        // removed it.
        rolling::grow(rollout, newest);
        return;
    }
    for position in old {
        for machine in machines(rollout, *position) {
            if budget <= 0 {
                return;
            }
            // A dead node cannot be drained or updated; it recovers, or its machine is replaced.
            let phase = machine.status.current_status.phase.as_ref().map(Phase::base);
            if phase != Some(&Phase::Running) {
                continue;
            }
            let candidate = |node: &Node| {
                label(node, keys::CANDIDATE_FOR_UPDATE_LABEL).is_some()
                    && label(node, keys::SELECTED_FOR_UPDATE_LABEL).is_none()
            };
            let Some(node) = rollout.node_to_change(&machine, candidate) else {
                continue;
            };
            let name = node.metadata.name.clone().unwrap_or_default();
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
            rollout.because(Kind::Node, &name, Reason::Selected(name.clone()));
            budget -= 1;
        }
    }
}

/// Taints nodes of old sets so that pods prefer other nodes, as in a rolling update.
pub(super) fn taint(rollout: &mut RolloutDraft, old: &[usize]) {
    for position in old {
        nodes::taint(rollout, *position);
    }
}
