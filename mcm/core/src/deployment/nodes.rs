//! What a rollout writes to nodes: pods had better go elsewhere, and cluster-autoscaler leaves them alone.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use mcm_api::{Machine, keys};

use super::Reason;
use super::rollout_draft::RolloutDraft;
use crate::set::is_active;
use crate::steps::Kind;

const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// Marks the nodes of a set that is out of date, and the set.
pub(super) fn taint(rollout: &mut RolloutDraft, position: usize) {
    let taint = Taint {
        effect: PREFER_NO_SCHEDULE.to_owned(),
        key: keys::PREFER_NO_SCHEDULE.to_owned(),
        value: Some(keys::TRUE.to_owned()),
        time_added: None,
    };
    for machine in machines(rollout, position) {
        let Some(node) = rollout.node_of(&machine) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        if !taints.contains(&taint) {
            taints.retain(|one| !ours(one));
            taints.push(taint.clone());
            rollout.because(Kind::Node, &name, Reason::Tainted(name.clone()));
        }
    }
    let Some(set) = rollout.sets.get_mut(position) else {
        return;
    };
    if set.annotation(keys::PREFER_NO_SCHEDULE).is_none() {
        set.annotate(keys::PREFER_NO_SCHEDULE, keys::TRUE);
    }
}

/// Takes that back: the set is the newest again.
pub(super) fn untaint(rollout: &mut RolloutDraft, position: usize) {
    for machine in machines(rollout, position) {
        let Some(node) = rollout.node_of(&machine) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let taints = node.spec.as_mut().and_then(|spec| spec.taints.as_mut());
        let Some(taints) = taints.filter(|taints| taints.iter().any(ours)) else {
            continue;
        };
        taints.retain(|taint| !ours(taint));
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

fn ours(taint: &Taint) -> bool {
    taint.key == keys::PREFER_NO_SCHEDULE && taint.effect == PREFER_NO_SCHEDULE
}

/// Keeps cluster-autoscaler away from all nodes of the deployment. A person's own annotation is left as it is.
pub(super) fn keep_autoscaler_away(rollout: &mut RolloutDraft) {
    let machines = all_machines(rollout);
    keep_away(rollout, machines);
}

/// Keeps it away from machines that were made in the place of others whose pods have not left yet: until those are gone the
/// replacements are empty, and not superfluous.
pub(super) fn reserve(rollout: &mut RolloutDraft) {
    for position in 0..rollout.sets.len() {
        let all = rollout
            .sets
            .get(position)
            .map(|set| set.machines.clone())
            .unwrap_or_default();
        let leaving = all
            .iter()
            .filter_map(|machine| machine.metadata.deletion_timestamp.as_ref().map(|time| time.0));
        let (count, Some(first)) = (leaving.clone().count(), leaving.min()) else {
            continue;
        };
        let made = |machine: &Arc<Machine>| machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let mut since: Vec<Arc<Machine>> = machines(rollout, position);
        since.retain(|machine| made(machine) >= Some(first));
        since.sort_by(|a, b| (made(b), &b.metadata.name).cmp(&(made(a), &a.metadata.name)));
        since.truncate(count);
        keep_away(rollout, since);
    }
}

fn keep_away(rollout: &mut RolloutDraft, machines: Vec<Arc<Machine>>) {
    for machine in machines {
        let value = if defect!(AutoscalerAnnotationMisspelt) {
            keys::TRUE
        } else {
            "true"
        };
        let Some(node) = rollout.node_of(&machine) else {
            continue;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        if has(node, keys::SCALE_DOWN_DISABLED_ANNOTATION) {
            continue;
        }
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

/// Lets it back to the nodes that it was kept away from here, but not to those of preserved machines.
pub(super) fn let_autoscaler_back(rollout: &mut RolloutDraft) {
    for machine in all_machines(rollout) {
        let preserved = machine.status.is_preserved();
        let Some(node) = rollout.node_of(&machine).filter(|_| !preserved) else {
            continue;
        };
        if !has(node, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION) {
            continue;
        }
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
