//! Evaluates conditions and expectations against the world.

use std::time::Duration;

use jiff::Timestamp;
use scenario::expect::{Condition, EventCount, FieldIs, FieldOf, History};
use scenario::{PhaseChange, Timeouts};
use serde_json::Value;

use super::workloads;
use super::world::WorldState;
use crate::object::text;

/// Whether `condition` holds in `world`.
pub fn holds(condition: &Condition, world: &WorldState, timeouts: &Timeouts) -> bool {
    match condition {
        Condition::Phase(phase) => world.phase(&phase.machine) == Some(&phase.is),
        Condition::MachineGone(name) => world.object("Machine", name).is_none(),
        Condition::NodeGone(name) => world.object("Node", name).is_none(),
        Condition::Exists(object) => world.referenced(object).is_some(),
        Condition::Observed(object) => world.referenced(object).is_some_and(is_observed),
        Condition::VmCount(count) => world.vms_of(&count.machine).count() == count.is,
        Condition::Calls(calls) => {
            let call_count = call_count(world, calls.call.rpc(), &calls.machine);
            calls.at_least.is_none_or(|minimum| call_count >= minimum)
                && calls.at_most.is_none_or(|maximum| call_count <= maximum)
        }
        Condition::ErrorCode(code) => world
            .object("Machine", &code.machine)
            .is_some_and(|machine| text(machine, "/status/lastOperation/errorCode") == code.is.name()),
        Condition::DescriptionContains(says) => world
            .object("Machine", &says.machine)
            .is_some_and(|machine| text(machine, "/status/lastOperation/description").contains(&says.text)),
        Condition::History(history) => history_holds(history, world, timeouts),
        Condition::Field(field) => field_value(field, world) == field.is,
        Condition::Pods(pods) => {
            workloads::within(workloads::selected(pods, world).count(), pods.at_least, pods.at_most)
        }
        Condition::Attached(attached) => workloads::within(
            workloads::nodes_of(attached, world).len(),
            attached.at_least,
            attached.at_most,
        ),
        Condition::VolumesOf(volumes) => workloads::volumes_for(&volumes.claim, world).count() == volumes.is,
        Condition::EventCount(expected) => {
            workloads::within(event_count(expected, world), expected.at_least, expected.at_most)
        }
        Condition::FaultHits(hits) => hit_count(&hits.fault, world) >= hits.at_least,
        // [`resolved`] replaces these when the expectation starts.
        Condition::Unchanged(_) | Condition::SamePods(_) => false,
        Condition::All(list) => list.iter().all(|condition| holds(condition, world, timeouts)),
        Condition::Any(list) => list.iter().any(|condition| holds(condition, world, timeouts)),
        Condition::Not(condition) => !holds(condition, world, timeouts),
    }
}

/// Replaces conditions such as `unchanged` by ones that contain the state at the start of the expectation.
pub(crate) fn resolved(condition: &Condition, world: &WorldState) -> Condition {
    let all = |list: &[Condition]| list.iter().map(|part| resolved(part, world)).collect();
    match condition {
        Condition::Unchanged(FieldOf {
            api_version,
            kind,
            name,
            field,
        }) => {
            let mut field_now = FieldIs {
                api_version: api_version.clone(),
                kind: kind.clone(),
                name: name.clone(),
                field: field.clone(),
                is: Value::Null,
            };
            field_now.is = field_value(&field_now, world);
            Condition::Field(field_now)
        }
        Condition::SamePods(on) => workloads::unchanged_pods(on, world),
        Condition::All(list) => Condition::All(all(list)),
        Condition::Any(list) => Condition::Any(all(list)),
        Condition::Not(condition) => Condition::Not(Box::new(resolved(condition, world))),
        condition => condition.clone(),
    }
}

pub(crate) fn call_count(world: &WorldState, call: &str, machine: &str) -> u64 {
    world
        .calls
        .get(&(call.to_owned(), machine.to_owned()))
        .copied()
        .unwrap_or_default()
}

pub(crate) fn event_count(expected: &EventCount, world: &WorldState) -> usize {
    let matches_event = |event: &&Value| {
        let of = |field: &str| event.pointer(field).and_then(Value::as_str).unwrap_or_default();
        of("/reason") == expected.reason
            && of("/involvedObject/kind") == expected.kind
            && expected
                .api_version
                .as_ref()
                .is_none_or(|version| of("/involvedObject/apiVersion") == version)
            && of("/involvedObject/name") == expected.name
    };
    let times = |event: &Value| event["count"].as_u64().unwrap_or(1).max(1);
    let all: u64 = world.of_kind("Event").filter(matches_event).map(times).sum();
    usize::try_from(all).unwrap_or(usize::MAX)
}

pub(crate) fn hit_count(fault: &str, world: &WorldState) -> u64 {
    world.faults.get(fault).copied().unwrap_or_default()
}

pub(crate) fn field_value(field: &FieldIs, world: &WorldState) -> Value {
    world
        .named(field.api_version.as_deref(), &field.kind, &field.name)
        .and_then(|object| scenario::value_at(object, &field.field))
        .cloned()
        .unwrap_or(Value::Null)
}

fn history_holds(history: &History, world: &WorldState, timeouts: &Timeouts) -> bool {
    let seen = world.machines.get(&history.machine);
    seen.is_some_and(|seen| {
        let mut steps = seen.phases.iter().zip(&history.phases).enumerate();
        seen.phases.len() == history.phases.len()
            && steps.all(|(index, ((at, phase), change))| {
                let before = index.checked_sub(1).map(|before| seen.phases[before].0);
                *phase == change.phase && timing(change, before, *at, timeouts) == Timing::InTime
            })
    })
}

/// The first difference between the expected phases of a machine and the observed ones, without names and times.
pub(crate) fn history_mismatch(history: &History, world: &WorldState, timeouts: &Timeouts) -> String {
    let Some(seen) = world.machines.get(&history.machine) else {
        return "no Machine".to_owned();
    };
    let mut before = None;
    for (index, change) in history.phases.iter().enumerate() {
        let Some((at, phase)) = seen.phases.get(index) else {
            return format!("{} is missing", change.phase);
        };
        if *phase != change.phase {
            return format!("{phase} instead of {}", change.phase);
        }
        match timing(change, before, *at, timeouts) {
            Timing::InTime => before = Some(*at),
            Timing::Early => return format!("{phase} too early"),
            Timing::Late => return format!("{phase} too late"),
        }
    }
    let further = seen.phases.get(history.phases.len());
    further.map_or_else(|| "none".to_owned(), |(_, phase)| format!("then {phase}"))
}

/// A time relative to its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    Early,
    InTime,
    Late,
}

/// Whether a phase that began at `at` keeps its distance from the previous one.
fn timing(change: &PhaseChange, before: Option<Timestamp>, at: Timestamp, timeouts: &Timeouts) -> Timing {
    let Some(before) = before else { return Timing::InTime };
    let not_before = change.not_before.as_ref().map(|limit| limit.value(timeouts));
    let not_after = change.not_after.as_ref().map(|limit| limit.value(timeouts));
    if not_before.is_some_and(|limit| between(before, at) < limit) {
        Timing::Early
    } else if not_after.is_some_and(|limit| at > timeouts.deadline(before, limit)) {
        Timing::Late
    } else {
        Timing::InTime
    }
}

/// Describes the state of the objects that `condition` names.
pub fn describe(condition: &Condition, world: &WorldState) -> String {
    let machine = |name: &str| match (world.phase(name), world.object("Machine", name)) {
        (Some(phase), Some(object)) => {
            let description = text(object, "/status/lastOperation/description");
            format!("machine {name} is {phase} ({description})")
        }
        (None, Some(_)) => format!("machine {name} has no phase yet"),
        (_, None) => format!("machine {name} does not exist"),
    };
    match condition {
        Condition::Phase(phase) => machine(&phase.machine),
        Condition::ErrorCode(code) => machine(&code.machine),
        Condition::DescriptionContains(says) => machine(&says.machine),
        Condition::MachineGone(name) => machine(name),
        Condition::NodeGone(name) => describe_existence("Node", name, world.object("Node", name)),
        Condition::Exists(object) => describe_existence(&object.kind, &object.name, world.referenced(object)),
        Condition::Observed(object) => match world.referenced(object) {
            Some(found) => format!(
                "{} {} has generation {}, and its status reflects {}",
                object.kind, object.name, found["metadata"]["generation"], found["status"]["observedGeneration"]
            ),
            None => describe_existence(&object.kind, &object.name, None),
        },
        Condition::VmCount(count) => {
            let vms: Vec<String> = world
                .vms_of(&count.machine)
                .map(|vm| format!("{} {}", vm.id, vm.state))
                .collect();
            format!(
                "machine {} has {} VM(s): [{}]",
                count.machine,
                vms.len(),
                vms.join(", ")
            )
        }
        Condition::Calls(calls) => {
            format!(
                "{} for {}: {} answered",
                calls.call.rpc(),
                calls.machine,
                call_count(world, calls.call.rpc(), &calls.machine)
            )
        }
        Condition::History(history) => {
            let seen = world
                .machines
                .get(&history.machine)
                .map(|seen| seen.phases.as_slice())
                .unwrap_or_default();
            let phases: Vec<String> = seen
                .iter()
                .enumerate()
                .map(|(index, (at, phase))| match index.checked_sub(1) {
                    Some(before) => format!("{phase} after {}", short(between(seen[before].0, *at))),
                    None => phase.to_string(),
                })
                .collect();
            format!("machine {} went through [{}]", history.machine, phases.join(", "))
        }
        Condition::Field(field) => {
            format!(
                "{} {} has {} = {}",
                field.kind,
                field.name,
                field.field,
                field_value(field, world)
            )
        }
        Condition::Pods(pods) => workloads::describe_pods(&pods.of, world),
        Condition::SamePods(on) => workloads::describe_pods(&on.of, world),
        Condition::Unchanged(field) => {
            let object = world.named(field.api_version.as_deref(), &field.kind, &field.name);
            describe_existence(&field.kind, &field.name, object)
        }
        Condition::Attached(attached) => workloads::describe_volumes(&attached.claim, world),
        Condition::VolumesOf(volumes) => workloads::describe_volumes(&volumes.claim, world),
        Condition::EventCount(expected) => {
            format!("{} event(s) {} exist", event_count(expected, world), expected.reason)
        }
        Condition::FaultHits(hits) => {
            let times = hit_count(&hits.fault, world);
            format!("fault {} has {times} hit(s)", hits.fault)
        }
        Condition::All(list) | Condition::Any(list) => {
            let parts: Vec<String> = list.iter().map(|part| describe(part, world)).collect();
            parts.join("; ")
        }
        Condition::Not(condition) => describe(condition, world),
    }
}

fn is_observed(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    generation.is_u64() && object["status"]["observedGeneration"] == *generation
}

fn describe_existence(kind: &str, name: &str, object: Option<&Value>) -> String {
    match object {
        Some(object) => match text(object, "/metadata/deletionTimestamp") {
            "" => format!("{kind} {name} exists"),
            _ => format!("{kind} {name} exists and is being deleted"),
        },
        None => format!("{kind} {name} does not exist"),
    }
}

/// The duration from `from` to `to`; zero if `to` is earlier.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// Formats a duration for people: `2h03m05s`, `10m05s`, `3.250s`.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) => format!("{}.{:03}s", seconds, duration.subsec_millis()),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}
