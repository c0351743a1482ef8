//! Machines that cluster-autoscaler chose for deletion: its list on the deployment becomes priorities and marks on
//! machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::{Machine, Phase, keys};

use super::Reason;
use super::rollout_draft::RolloutDraft;
use crate::event::EventType;
use crate::set::{is_active, marked};
use crate::steps::{Kind, OwnerAction};

/// Normalizes the list, marks the machines that it names, and unmarks those that it no longer names.
pub(super) fn mark(rollout: &mut RolloutDraft) {
    let named = normalize(rollout);
    let machines: Vec<Arc<Machine>> = rollout
        .sets
        .iter()
        .flat_map(|set| set.machines.iter().cloned())
        .collect();
    for machine in machines.iter().filter(|machine| is_active(machine)) {
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        let annotation = |key: &str| machine.metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let priority = annotation(keys::PRIORITY_ANNOTATION);
        match named.get(name) {
            Some(time) if priority != Some(keys::CHOSEN_PRIORITY) || marked(machine).is_none() => {
                let annotations = rollout.machine(machine).metadata.annotations.get_or_insert_default();
                annotations.insert(keys::PRIORITY_ANNOTATION.to_owned(), keys::CHOSEN_PRIORITY.to_owned());
                annotations
                    .entry(keys::MARKED_ANNOTATION.to_owned())
                    .or_insert_with(|| time.clone());
                rollout.because(Kind::Machine, name, Reason::Chosen(name.to_owned()));
            }
            // A priority without a mark was set by a user.
            None if annotation(keys::MARKED_ANNOTATION).is_some() && !defect!(PriorityOutlivesList) => {
                let annotations = rollout.machine(machine).metadata.annotations.get_or_insert_default();
                annotations.remove(keys::MARKED_ANNOTATION);
                if priority == Some(keys::CHOSEN_PRIORITY) {
                    annotations.insert(keys::PRIORITY_ANNOTATION.to_owned(), keys::DEFAULT_PRIORITY.to_owned());
                }
                rollout.because(Kind::Machine, name, Reason::NoLongerChosen(name.to_owned()));
            }
            _ => {}
        }
    }
    rollout.rerank();
}

/// The list's machines with their times. An entry without a time gets the time of the last scaling. Entries without a
/// machine of the deployment, or whose machine is deleted anyway, are dropped. An entry of a preserved machine is
/// dropped with an event: another machine is deleted instead, and a remaining mark would delete this one as well when
/// its preservation ends.
fn normalize(rollout: &mut RolloutDraft) -> BTreeMap<String, String> {
    let annotations = rollout.deployment.metadata.annotations.clone().unwrap_or_default();
    let Some(list) = annotations.get(keys::TRIGGER_DELETION_ANNOTATION) else {
        return BTreeMap::new();
    };
    let scaled_at = annotations.get(keys::LAST_SCALE_ANNOTATION).cloned();
    let fallback = scaled_at
        .clone()
        .unwrap_or_else(|| crate::set::stamp(rollout.now).0.to_string());
    let find = |name: &str| {
        let machines = rollout.sets.iter().flat_map(|set| &set.machines);
        let mut named = machines.filter(|machine| machine.metadata.name.as_deref() == Some(name));
        let stays =
            |machine: &Machine| machine.status.current_status.phase != Some(Phase::Failed) || machine.status.is_kept();
        named.find(|machine| is_active(machine) && stays(machine))
    };
    let mut named = Vec::new();
    let mut kept = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, time) = entry.split_once('~').unwrap_or((entry, &fallback));
        match find(name).filter(|_| time.parse::<Timestamp>().is_ok()) {
            Some(machine) if machine.status.is_kept() => kept.push(Reason::ChosenAndPreserved(name.to_owned())),
            Some(_) => named.push((name.to_owned(), time.to_owned())),
            None if defect!(ScaleDownRepeatedLowersAgain) => rollout.deployment.spec.replicas -= 1,
            None => {}
        }
    }
    for reason in kept {
        // The event comes before the patch of the list: after the patch the choice is lost.
        let event = OwnerAction::RecordEvent {
            type_: EventType::Normal,
            reason: "PreservedMachineStays",
            message: reason.to_string(),
        };
        rollout.plan.push(event, reason);
    }
    let text = named
        .iter()
        .map(|(name, time)| format!("{name}~{time}"))
        .collect::<Vec<_>>()
        .join(",");
    let name = rollout.name().to_owned();
    let annotations = rollout.deployment.metadata.annotations.get_or_insert_default();
    if text.is_empty() {
        annotations.remove(keys::TRIGGER_DELETION_ANNOTATION);
    } else if text != *list {
        annotations.insert(keys::TRIGGER_DELETION_ANNOTATION.to_owned(), text);
    }
    if scaled_at.is_none() && !named.is_empty() {
        annotations.insert(keys::LAST_SCALE_ANNOTATION.to_owned(), fallback);
    }
    if rollout.deployment.metadata.annotations != rollout.view.deployment.metadata.annotations {
        rollout.because(Kind::Deployment, &name, Reason::TriggerList);
    }
    named.into_iter().collect()
}
