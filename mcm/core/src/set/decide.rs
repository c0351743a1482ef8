//! One decision about one set, in its order: validity, finalizer, claims, what machines are given, their number, status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::set::MachineSetStatus;
use mcm_api::{Machine, MachineSet, keys};
use serde_json::json;

use super::defects;
use super::replicas::{Change, change, label};
use super::status::{invalid, news, stamp, status};
use super::sync::sync;
use super::{Reason, View, problems};
use crate::event::EventType;
use crate::finalizer::{finalizer_patch, has_finalizer};
use crate::merge::difference;
use crate::ownership::{Claim, adoption, claim, release};
use crate::preservation::without_sub_phases;
use crate::steps::{Act, Kind, Plan};

/// How old a machine is at most whose labels nobody takes on purpose: it has hardly joined.
const YOUNG: Duration = Duration::from_mins(20);

/// What is to be done about the set.
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
    let leaving = set.metadata.deletion_timestamp.is_some();
    let problems = problems(set);
    if !problems.is_empty() && !leaving && !defect!(EmptySelectorTakesAll) {
        let text = problems.join("; ");
        let reason = Reason::Invalid(text.clone());
        if write_status(&mut plan, set, invalid(set, &text, now), now, reason.clone()) {
            event(&mut plan, EventType::Warning, "InvalidSpec", text, reason);
        }
        return plan;
    }
    if !leaving && !has_finalizer(&set.metadata, keys::MACHINE_FINALIZER) {
        let patch = finalizer_patch(&set.metadata, keys::MACHINE_FINALIZER, true);
        plan.push(own(set, patch), Reason::FinalizerMissing);
        return plan;
    }
    let claimed = claims(view, now, &mut plan);
    if !plan.steps.is_empty() {
        return plan;
    }
    if leaving {
        leave(set, &claimed, &mut plan);
    } else {
        keep_number(view, &claimed, &mut plan);
    }
    if view.failure.is_some() {
        plan.steps.clear();
    }
    let (status, wake) = status(view, &claimed, now);
    // What is changed first is observed by the next decision, which follows at once.
    if plan.steps.is_empty() {
        write_status(&mut plan, set, status, now, Reason::Status);
    }
    if let Some(wake) = wake {
        plan.wake_within(wake);
    }
    plan
}

/// The set's machines. What is adopted or released comes first, and the rest in the next plan.
fn claims(view: &View, now: Timestamp, plan: &mut Plan<Reason>) -> Vec<Arc<Machine>> {
    let owner = &view.set.metadata;
    let Some(selector) = &view.set.spec.selector else {
        return Vec::new();
    };
    let mut mine = Vec::new();
    for machine in &view.machines {
        let name = machine.metadata.name.clone().unwrap_or_default();
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
                let patch = welcome(machine, adoption(&machine.metadata, "MachineSet", owner));
                let kind = Kind::Machine;
                plan.push(
                    Act::Adopt {
                        kind,
                        name: name.clone(),
                        patch,
                    },
                    Reason::Adopted(name),
                );
            }
            Claim::Release => {
                let patch = if defect!(UnmatchedMachineNotReleased) {
                    defects::adoption_alone(machine, owner)
                } else {
                    farewell(&view.set, machine, now, release(&machine.metadata, owner))
                };
                plan.push(patch_machine(&name, patch), Reason::LetGo(name.clone()));
                let text = format!("Released machine: {name}: it no longer has the labels that are selected");
                event(plan, EventType::Warning, "ReleasedMachine", text, Reason::LetGo(name));
            }
            Claim::Foreign => {}
        }
    }
    mine.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    mine
}

/// A young machine that goes is noted: whoever takes the labels from each new one must not make the set go on for ever.
fn farewell(set: &MachineSet, machine: &Machine, now: Timestamp, mut patch: serde_json::Value) -> serde_json::Value {
    let made = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = made.map(|made| Duration::try_from(now.duration_since(made)).unwrap_or_default());
    if age.is_some_and(|age| age < YOUNG) {
        let set = set.metadata.name.as_deref().unwrap_or_default();
        let note = format!("{set}~{}", stamp(now).0);
        patch["metadata"]["annotations"] = json!({ keys::RELEASED_BY_ANNOTATION: note });
    }
    patch
}

/// One that comes back is as any other.
fn welcome(machine: &Machine, mut patch: serde_json::Value) -> serde_json::Value {
    let annotations = machine.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key(keys::RELEASED_BY_ANNOTATION)) {
        patch["metadata"]["annotations"] = json!({ keys::RELEASED_BY_ANNOTATION: null });
    }
    patch
}

/// A set that is being deleted takes its machines with it, whatever else is said of it.
fn leave(set: &MachineSet, claimed: &[Arc<Machine>], plan: &mut Plan<Reason>) {
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
            Act::deletion(Kind::Machine, &machine.metadata),
            Reason::SetDeleted(name),
        );
    }
}

fn keep_number(view: &View, claimed: &[Arc<Machine>], plan: &mut Plan<Reason>) {
    let change = change(view, claimed);
    let goes = |machine: &Arc<Machine>| match &change {
        Change::Delete(victims) => victims
            .iter()
            .any(|(victim, _)| victim.metadata.uid == machine.metadata.uid),
        Change::None | Change::Make(..) => false,
    };
    for machine in claimed.iter().filter(|machine| !goes(machine)) {
        plan.steps.extend(sync(&view.set, machine));
    }
    match change {
        Change::None => {}
        Change::Make(machines, reason) => plan.push(Act::CreateMachines(machines), reason),
        Change::Delete(victims) => {
            for (machine, reason) in victims {
                let text = format!(
                    "Deleted machine: {}",
                    machine.metadata.name.as_deref().unwrap_or_default()
                );
                if defect!(TerminatingBeforeDeletion) {
                    plan.push(defects::terminating(&machine), reason.clone());
                }
                plan.push(Act::deletion(Kind::Machine, &machine.metadata), reason.clone());
                event(plan, EventType::Normal, "SuccessfulDelete", text, reason);
            }
        }
    }
}

fn own(set: &MachineSet, patch: serde_json::Value) -> Act {
    Act::Patch {
        kind: Kind::Set,
        name: set.metadata.name.clone().unwrap_or_default(),
        patch,
    }
}

fn patch_machine(name: &str, patch: serde_json::Value) -> Act {
    Act::Patch {
        kind: Kind::Machine,
        name: name.to_owned(),
        patch,
    }
}

fn event(plan: &mut Plan<Reason>, type_: EventType, word: &'static str, message: String, why: Reason) {
    plan.push(
        Act::RecordEvent {
            type_,
            reason: word,
            message,
        },
        why,
    );
}

/// Writes the status if it says anything new; answers whether it does.
fn write_status(
    plan: &mut Plan<Reason>,
    set: &MachineSet,
    status: MachineSetStatus,
    now: Timestamp,
    reason: Reason,
) -> bool {
    let Some(change) = news(set, status, now).and_then(|status| difference(&set.status, &status)) else {
        return false;
    };
    let patch = json!({
        "metadata": { "resourceVersion": set.metadata.resource_version },
        "status": change,
    });
    let act = Act::WriteStatus {
        kind: Kind::Set,
        name: set.metadata.name.clone().unwrap_or_default(),
        patch,
    };
    plan.push(act, reason);
    true
}
