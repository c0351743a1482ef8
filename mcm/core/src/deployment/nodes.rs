//! What a rollout writes to nodes: a taint that makes pods prefer other nodes, and annotations against scale-down by
//! cluster-autoscaler.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use mcm_api::{Machine, keys};

use super::Reason;
use super::rollout_draft::RolloutDraft;
use crate::set::is_active;
use crate::steps::Kind;

const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// Taints the nodes of an outdated set, and annotates the set.
pub(super) fn taint(rollout: &mut RolloutDraft, position: usize) {
    let taint = Taint {
        effect: PREFER_NO_SCHEDULE.to_owned(),
        key: keys::PREFER_NO_SCHEDULE.to_owned(),
        value: Some(keys::TRUE.to_owned()),
        time_added: None,
    };
    for machine in machines(rollout, position) {
        let Some(node) = rollout.node_to_change(&machine, |node| !taints(node).contains(&taint)) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        taints.retain(|one| !is_ours(one));
        taints.push(taint.clone());
        rollout.because(Kind::Node, &name, Reason::Tainted(name.clone()));
    }
    let Some(set) = rollout.sets.get_mut(position) else {
        return;
    };
    if set.annotation(keys::PREFER_NO_SCHEDULE).is_none() {
        set.annotate(keys::PREFER_NO_SCHEDULE, keys::TRUE);
    }
}

/// Removes taint and annotation: the set is the newest again.
pub(super) fn untaint(rollout: &mut RolloutDraft, position: usize) {
    for machine in machines(rollout, position) {
        let Some(node) = rollout.node_to_change(&machine, |node| taints(node).iter().any(is_ours)) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(taints) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
            taints.retain(|taint| !is_ours(taint));
        }
        rollout.because(Kind::Node, &name, Reason::Untainted(name.clone()));
    }
    let annotations = rollout
        .sets
        .get_mut(position)
        .and_then(|set| set.set.metadata.annotations.as_mut());
    if let Some(annotations) = annotations {
        annotations.remove(keys::PREFER_NO_SCHEDULE);
    }
}

fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn is_ours(taint: &Taint) -> bool {
    taint.key == keys::PREFER_NO_SCHEDULE && taint.effect == PREFER_NO_SCHEDULE
}

/// Disables scale-down for all nodes of the deployment. An annotation that a user set is not changed.
pub(super) fn disable_scale_down_of_all(rollout: &mut RolloutDraft) {
    let machines = all_machines(rollout);
    disable_scale_down(rollout, machines);
}

/// Disables scale-down for replacements of machines that are still being drained: they are empty now, but the evicted
/// pods will need them.
pub(super) fn disable_scale_down_of_replacements(rollout: &mut RolloutDraft) {
    for position in 0..rollout.sets.len() {
        let all = rollout
            .sets
            .get(position)
            .map(|set| set.machines.clone())
            .unwrap_or_default();
        let deletion_times = all
            .iter()
            .filter_map(|machine| machine.metadata.deletion_timestamp.as_ref().map(|time| time.0));
        let (count, Some(first)) = (deletion_times.clone().count(), deletion_times.min()) else {
            continue;
        };
        let created = |machine: &Arc<Machine>| machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let mut replacements: Vec<Arc<Machine>> = machines(rollout, position);
        replacements.retain(|machine| created(machine) >= Some(first));
        replacements.sort_by(|a, b| (created(b), &b.metadata.name).cmp(&(created(a), &a.metadata.name)));
        replacements.truncate(count);
        disable_scale_down(rollout, replacements);
    }
}

fn disable_scale_down(rollout: &mut RolloutDraft, machines: Vec<Arc<Machine>>) {
    for machine in machines {
        let value = if defect!(AutoscalerAnnotationMisspelt) {
            keys::TRUE
        } else {
            "true"
        };
        let enabled = |node: &Node| !has(node, keys::SCALE_DOWN_DISABLED_ANNOTATION);
        let Some(node) = rollout.node_to_change(&machine, enabled) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let annotations = node.metadata.annotations.get_or_insert_default();
        for key in [
            keys::SCALE_DOWN_DISABLED_ANNOTATION,
            keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION,
        ] {
            annotations.insert(key.to_owned(), value.to_owned());
        }
        rollout.because(Kind::Node, &name, Reason::KeptAway(name.clone()));
    }
}

/// Enables scale-down again for nodes where a rollout disabled it, except for nodes of preserved machines.
pub(super) fn enable_scale_down(rollout: &mut RolloutDraft) {
    for machine in all_machines(rollout) {
        let disabled = |node: &Node| has(node, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION);
        if machine.status.is_preserved() {
            continue;
        }
        let Some(node) = rollout.node_to_change(&machine, disabled) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(annotations) = &mut node.metadata.annotations {
            annotations.remove(keys::SCALE_DOWN_DISABLED_ANNOTATION);
            annotations.remove(keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION);
        }
        rollout.because(Kind::Node, &name, Reason::LetBack(name.clone()));
    }
}

fn has(node: &Node, key: &str) -> bool {
    node.metadata
        .annotations
        .as_ref()
        .is_some_and(|all| all.contains_key(key))
}

pub(super) fn machines(rollout: &RolloutDraft, position: usize) -> Vec<Arc<Machine>> {
    let machines = rollout
        .sets
        .get(position)
        .map(|set| set.machines.clone())
        .unwrap_or_default();
    machines.into_iter().filter(|machine| is_active(machine)).collect()
}

fn all_machines(rollout: &RolloutDraft) -> Vec<Arc<Machine>> {
    (0..rollout.sets.len())
        .flat_map(|position| machines(rollout, position))
        .collect()
}
