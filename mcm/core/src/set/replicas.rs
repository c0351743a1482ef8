//! How many machines a set creates or deletes, and which.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::{GoDuration, Machine, MachineSet, Phase, keys};

use super::defects;
use super::rank::{is_active, marked, priority, rank};
use super::{BURST, Reason, View, cause};
use crate::ownership::reference;
use crate::preservation::AUTOMATIC;

/// The change of the set's machines.
pub(super) enum Change {
    /// No change.
    None,
    /// These machines are created.
    Create(Vec<Machine>, Reason),
    /// These machines are deleted.
    Delete(Vec<(Arc<Machine>, Reason)>),
}

pub(super) fn change(view: &View, claimed: &[Arc<Machine>]) -> Change {
    let set = &view.set;
    if label(set, keys::FREEZE_LABEL) == Some(keys::TRUE) {
        return Change::None;
    }
    let wanted = usize::try_from(set.spec.replicas).unwrap_or_default();
    let counts = |machine: &&Arc<Machine>| {
        is_active(machine) || defect!(TerminatingMachinesCountAndRank | TerminatingMachinesRankLast)
    };
    let active: Vec<Arc<Machine>> = claimed.iter().filter(counts).cloned().collect();
    if active.len() < wanted {
        if label(set, keys::SCALE_UP_DISABLED_LABEL).is_some() || active.len() >= needed(view) {
            return Change::None;
        }
        let wanted = wanted.min(needed(view));
        let missing = (wanted - active.len()).min(BURST);
        let there = active.len();
        let reason = Reason::TooFew { there, wanted, missing };
        return Change::Create(vec![machine_of(set); missing], reason);
    }
    let victims = victims(view, active, wanted);
    if victims.is_empty() {
        Change::None
    } else {
        Change::Delete(victims)
    }
}

/// The deployment's replicas limit each of its sets, so that a set whose size is not reduced yet does not create
/// machines that would be deleted at once.
fn needed(view: &View) -> usize {
    match view
        .deployment
        .as_ref()
        .filter(|_| !defect!(NamedMachineDeletedBeforeScaleDown | SetSizedByItself | CachedOwnerTrusted))
    {
        Some(deployment) if deployment.metadata.deletion_timestamp.is_some() => 0,
        Some(deployment) => usize::try_from(deployment.spec.replicas).unwrap_or_default(),
        None => usize::MAX,
    }
}

/// The machines to delete: the surplus by rank, machines that the autoscaler chose, and failed ones.
fn victims(view: &View, active: Vec<Arc<Machine>>, wanted: usize) -> Vec<(Arc<Machine>, Reason)> {
    let mut ranked: Vec<Arc<Machine>> = active.into_iter().filter(|machine| !is_handed_over(machine)).collect();
    rank(&mut ranked);
    if defect!(UnansweringNodeGoesFirst | OldestMachineGoesFirst | TerminatingMachinesRankLast) {
        defects::misrank(&mut ranked);
    }
    let there = ranked.len();
    let surplus = there.saturating_sub(wanted);
    let cause = cause::of_surplus(view);
    let mut victims = Vec::new();
    for (position, machine) in ranked.into_iter().enumerate() {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let chosen = is_chosen_for_deletion(&view.set, &machine)
            && !defect!(TerminatingMachinesCountAndRank | NamedMachinesAtSurplusOnly)
            || is_chosen(&machine).is_some() && defect!(NamedMachineDeletedBeforeScaleDown);
        let failed = machine.status.current_status.phase == Some(Phase::Failed);
        let expires = machine.status.current_status.preserve_expiry_time.is_some();
        let kept = machine.status.is_preserved() && (expires || !defect!(FailedMachinesKeptWithExpiryOnly))
            || is_adopted(&machine);
        let reason = if chosen && !kept {
            Reason::Chosen(name)
        } else if position < surplus {
            Reason::TooMany {
                cause,
                there,
                wanted,
                machine: name,
            }
        } else if failed && !kept {
            let cause = cause::of_failure(&machine);
            Reason::Failed { cause, machine: name }
        } else {
            continue;
        };
        victims.push((machine, reason));
    }
    if defect!(TerminatingMachinesCountAndRank | TerminatingMachinesRankLast) {
        victims.retain(|(machine, _)| is_active(machine));
    }
    victims
}

/// Whether another controller marked the machine for automatic preservation and has not preserved it yet: the machine
/// controller preserves it or removes the mark.
fn is_adopted(machine: &Machine) -> bool {
    let annotations = machine.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(keys::PRESERVE_ANNOTATION));
    machine.status.preservation.is_none() && value.is_some_and(|value| value == AUTOMATIC)
}

/// Whether the autoscaler chose the machine before it last reduced the replicas: unless it is preserved, it is deleted
/// independent of the set's size.
pub(crate) fn is_chosen_for_deletion(set: &MachineSet, machine: &Machine) -> bool {
    let scaled = last_scale(set);
    is_chosen(machine).is_some_and(|mark| scaled.is_some_and(|scaled| mark <= scaled))
}

/// When the autoscaler marked the machine, if it still has the priority of a chosen machine.
fn is_chosen(machine: &Machine) -> Option<Timestamp> {
    (priority(machine).to_string() == keys::CHOSEN_PRIORITY)
        .then(|| marked(machine))
        .flatten()
}

/// Whether the machine was updated in place and is not counted in its new set's size yet.
fn is_handed_over(machine: &Machine) -> bool {
    let result = machine
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(keys::UPDATE_RESULT_LABEL));
    result.is_some_and(|result| result == keys::UPDATE_SUCCESSFUL)
}

fn last_scale(set: &MachineSet) -> Option<Timestamp> {
    set.metadata
        .annotations
        .as_ref()?
        .get(keys::LAST_SCALE_ANNOTATION)?
        .parse()
        .ok()
}

pub(super) fn label<'a>(set: &'a MachineSet, key: &str) -> Option<&'a str> {
    set.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// A new machine of the set, without a name.
fn machine_of(set: &MachineSet) -> Machine {
    let template = &set.spec.template;
    let mut machine = Machine::default();
    let metadata = &mut machine.metadata;
    metadata.generate_name = Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default()));
    metadata.namespace = set.metadata.namespace.clone();
    metadata.labels = template.metadata.labels.clone();
    metadata.finalizers = template.metadata.finalizers.clone();
    metadata.owner_references = Some(vec![reference("MachineSet", &set.metadata)]);
    let mut annotations: BTreeMap<String, String> = template.metadata.annotations.clone().unwrap_or_default();
    machine.spec = template.spec.clone();
    let key = keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION;
    if let Some(timeout) = set.metadata.annotations.as_ref().and_then(|all| all.get(key)) {
        annotations.insert(key.to_owned(), timeout.clone());
        if let Ok(timeout) = timeout.parse::<GoDuration>() {
            machine.spec.configuration.creation_timeout = Some(timeout);
        }
    }
    metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
    machine
}
