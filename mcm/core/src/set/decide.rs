//! The decision about one set. Order: validation, finalizer, adoption, synchronization of machines, their number,
//! status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::set::MachineSetStatus;
use mcm_api::{Machine, MachineSet, keys};
use serde_json::json;

use super::defects;
use super::replicas::{Change, change, label};
use super::status::{changed, invalid, stamp, status};
use super::sync::sync;
use super::{Reason, View, problems};
use crate::event::EventType;
use crate::finalizer::{finalizer_patch, has_finalizer};
use crate::merge::difference;
use crate::ownership::{Claim, adoption, claim, release};
use crate::preservation::without_sub_phases;
use crate::steps::{Kind, OwnerAction, Plan};

/// The age up to which a released machine is recorded: a user hardly releases a machine on purpose before it has
/// joined.
const YOUNG: Duration = Duration::from_mins(20);

/// The plan for the set.
pub fn decide(view: &View, now: Timestamp) -> Plan<Reason> {
    let plain = without_sub_phases(&view.machines).map(|machines| View {
        machines,
        ..view.clone()
    });
    let view = plain.as_ref().unwrap_or(view);
    let set = &view.set;
    let mut plan = Plan::default();
    if defect!(FrozenSetNotReconciled) && label(set, keys::FREEZE_LABEL).is_some() {
        return plan;
    }
    let deleting = set.metadata.deletion_timestamp.is_some();
    let problems = problems(set);
    if !problems.is_empty() && !deleting && !defect!(EmptySelectorTakesAll) {
        let text = problems.join("; ");
        let reason = Reason::Invalid(text.clone());
        if write_status(&mut plan, set, invalid(set, &text, now), now, reason.clone()) {
            event(&mut plan, EventType::Warning, "InvalidSpec", text, reason);
        }
        return plan;
    }
    if !deleting && !has_finalizer(&set.metadata, keys::MACHINE_FINALIZER) {
        let patch = finalizer_patch(&set.metadata, keys::MACHINE_FINALIZER, true);
        plan.push(own(set, patch), Reason::FinalizerMissing);
        return plan;
    }
    let claimed = claims(view, now, &mut plan);
    if !plan.steps.is_empty() {
        return plan;
    }
    if deleting {
        delete(set, &claimed, &mut plan);
    } else {
        reconcile_machines(view, &claimed, &mut plan);
    }
    if view.failure.is_some() {
        plan.steps.clear();
    }
    let (status, wake) = status(view, &claimed, now);
    // A plan with changes writes no status: the next decision follows at once and observes them.
    if plan.steps.is_empty() {
        write_status(&mut plan, set, status, now, Reason::Status);
    }
    if let Some(wake) = wake {
        plan.wake_within(wake);
    }
    plan
}

/// The set's machines. If machines must be adopted or released, this plan does only that.
fn claims(view: &View, now: Timestamp, plan: &mut Plan<Reason>) -> Vec<Arc<Machine>> {
    let owner = &view.set.metadata;
    let Some(selector) = &view.set.spec.selector else {
        return Vec::new();
    };
    let mut mine = Vec::new();
    for machine in &view.machines {
        let name = || machine.metadata.name.clone().unwrap_or_default();
        let claim = claim(owner, selector, &machine.metadata);
        let claim = match claim {
            Claim::Foreign | Claim::Release
                if defect!(EmptySelectorTakesAll) && crate::selector::is_empty(selector) =>
            {
                defects::claim_of_any(machine)
            }
            claim => claim,
        };
        match claim {
            Claim::Mine => mine.push(Arc::clone(machine)),
            Claim::Adopt => {
                let name = name();
                let patch = without_release_mark(machine, adoption(&machine.metadata, "MachineSet", owner));
                let kind = Kind::Machine;
                plan.push(
                    OwnerAction::Adopt {
                        kind,
                        name: name.clone(),
                        patch,
                    },
                    Reason::Adopted(name),
                );
            }
            Claim::Release => {
                let name = name();
                let patch = if defect!(UnmatchedMachineNotReleased) {
                    defects::adoption_alone(machine, owner)
                } else {
                    with_release_mark(&view.set, machine, now, release(&machine.metadata, owner))
                };
                plan.push(patch_machine(&name, patch), Reason::LetGo(name.clone()));
                let text = format!("Released machine: {name}: it no longer matches the selector");
                event(plan, EventType::Warning, "ReleasedMachine", text, Reason::LetGo(name));
            }
            Claim::Foreign => {}
        }
    }
    mine.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    mine
}

/// Records the release of a young machine, so that a client that removes the labels of each new machine cannot make the
/// set create machines forever.
fn with_release_mark(
    set: &MachineSet,
    machine: &Machine,
    now: Timestamp,
    mut patch: serde_json::Value,
) -> serde_json::Value {
    let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = created.map(|created| Duration::try_from(now.duration_since(created)).unwrap_or_default());
    if age.is_some_and(|age| age < YOUNG) {
        let set = set.metadata.name.as_deref().unwrap_or_default();
        let mark = format!("{set}~{}", stamp(now).0);
        patch["metadata"]["annotations"] = json!({ keys::RELEASED_BY_ANNOTATION: mark });
    }
    patch
}

/// Removes the record of a release from an adopted machine.
fn without_release_mark(machine: &Machine, mut patch: serde_json::Value) -> serde_json::Value {
    let annotations = machine.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key(keys::RELEASED_BY_ANNOTATION)) {
        patch["metadata"]["annotations"] = json!({ keys::RELEASED_BY_ANNOTATION: null });
    }
    patch
}

/// Deletes the machines of a set that is being deleted, then removes its finalizer, even if its spec is invalid.
fn delete(set: &MachineSet, claimed: &[Arc<Machine>], plan: &mut Plan<Reason>) {
    if !has_finalizer(&set.metadata, keys::MACHINE_FINALIZER) {
        return;
    }
    if claimed.is_empty() {
        let patch = finalizer_patch(&set.metadata, keys::MACHINE_FINALIZER, false);
        plan.push(own(set, patch), Reason::Released);
        return;
    }
    for machine in claimed
        .iter()
        .filter(|machine| machine.metadata.deletion_timestamp.is_none())
    {
        let name = machine.metadata.name.clone().unwrap_or_default();
        plan.push(
            OwnerAction::deletion(Kind::Machine, &machine.metadata),
            Reason::SetDeleted(name),
        );
    }
}

fn reconcile_machines(view: &View, claimed: &[Arc<Machine>], plan: &mut Plan<Reason>) {
    let change = change(view, claimed);
    let deleted: BTreeSet<Option<&String>> = match &change {
        Change::Delete(victims) => victims.iter().map(|(victim, _)| victim.metadata.uid.as_ref()).collect(),
        Change::None | Change::Create(..) => BTreeSet::new(),
    };
    for machine in claimed
        .iter()
        .filter(|machine| !deleted.contains(&machine.metadata.uid.as_ref()))
    {
        plan.steps.extend(sync(&view.set, machine));
    }
    match change {
        Change::None => {}
        Change::Create(machines, reason) => plan.push(OwnerAction::CreateMachines(machines), reason),
        Change::Delete(victims) => {
            for (machine, reason) in victims {
                let name = machine.metadata.name.as_deref().unwrap_or_default();
                let text = match reason.cause() {
                    Some(cause) => format!("Deleted machine: {name} ({cause})"),
                    None => format!("Deleted machine: {name}"),
                };
                if defect!(TerminatingBeforeDeletion) {
                    plan.push(defects::terminating(&machine), reason.clone());
                }
                plan.push(OwnerAction::deletion(Kind::Machine, &machine.metadata), reason.clone());
                event(plan, EventType::Normal, "SuccessfulDelete", text, reason);
            }
        }
    }
}

fn own(set: &MachineSet, patch: serde_json::Value) -> OwnerAction {
    OwnerAction::Patch {
        kind: Kind::Set,
        name: set.metadata.name.clone().unwrap_or_default(),
        patch,
    }
}

fn patch_machine(name: &str, patch: serde_json::Value) -> OwnerAction {
    OwnerAction::Patch {
        kind: Kind::Machine,
        name: name.to_owned(),
        patch,
    }
}

fn event(plan: &mut Plan<Reason>, type_: EventType, reason: &'static str, message: String, why: Reason) {
    plan.push(OwnerAction::RecordEvent { type_, reason, message }, why);
}

/// Adds a status write if the status differs; returns whether it does.
fn write_status(
    plan: &mut Plan<Reason>,
    set: &MachineSet,
    status: MachineSetStatus,
    now: Timestamp,
    reason: Reason,
) -> bool {
    let Some(change) = changed(set, status, now).and_then(|status| difference(&set.status, &status)) else {
        return false;
    };
    let patch = json!({
        "metadata": { "resourceVersion": set.metadata.resource_version },
        "status": change,
    });
    let action = OwnerAction::WriteStatus {
        kind: Kind::Set,
        name: set.metadata.name.clone().unwrap_or_default(),
        patch,
    };
    plan.push(action, reason);
    true
}
