//! The values that the conditions of an expectation read, with the times of their changes.

use std::time::Duration;

use jiff::Timestamp;
use scenario::expect::{Condition, Expectation};
use serde_json::Value;

use crate::evaluate::{between, call_count, event_count, hit_count, short};
use crate::object::text;
use crate::workloads;
use crate::world::WorldState;

/// Number of changes that are kept from the start, and from the end.
const KEPT: usize = 8;

/// The current value of a condition.
#[derive(Clone, Copy, Debug)]
enum Reading<'a> {
    Number(u64),
    Text(&'a str),
    Json(&'a Value),
}

/// A value that a condition had.
#[derive(Clone, Debug)]
enum Recorded {
    Number(u64),
    Text(String),
    Json(Value),
}

impl Reading<'_> {
    fn is(&self, recorded: &Recorded) -> bool {
        match (self, recorded) {
            (Self::Number(new), Recorded::Number(old)) => new == old,
            (Self::Text(new), Recorded::Text(old)) => new == old,
            (Self::Json(new), Recorded::Json(old)) => *new == old,
            _ => false,
        }
    }

    fn recorded(&self) -> Recorded {
        match *self {
            Self::Number(number) => Recorded::Number(number),
            Self::Text(text) => Recorded::Text(text.to_owned()),
            Self::Json(value) => Recorded::Json(value.clone()),
        }
    }
}

impl std::fmt::Display for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Json(value) => write!(f, "{value}"),
        }
    }
}

/// A condition without parts, and its values.
#[derive(Clone, Debug)]
struct Series {
    condition: Condition,
    /// The first and the last changes.
    changes: Vec<(Timestamp, Recorded)>,
    /// Number of changes in between that are not kept.
    dropped: usize,
}

/// The values of all conditions of an expectation.
#[derive(Clone, Debug)]
pub(crate) struct Readings(Vec<Series>);

impl Readings {
    /// Starts with the current values.
    pub(crate) fn new(expectation: &Expectation, now: Timestamp, world: &WorldState) -> Self {
        let mut series = Vec::new();
        collect(&expectation.that, &mut series);
        let mut readings = Self(series);
        readings.record(now, world);
        readings
    }

    /// Records the values that have changed.
    pub(crate) fn record(&mut self, now: Timestamp, world: &WorldState) {
        for series in &mut self.0 {
            let reading = read(&series.condition, world);
            if series.changes.last().is_some_and(|(_, last)| reading.is(last)) {
                continue;
            }
            if series.changes.len() == 2 * KEPT {
                series.changes.remove(KEPT);
                series.dropped += 1;
            }
            series.changes.push((now, reading.recorded()));
        }
    }

    /// One line for each condition: its values, and when they changed, relative to `started`.
    pub(crate) fn lines(&self, started: Timestamp) -> Vec<String> {
        self.0.iter().map(|series| series.line(started)).collect()
    }
}

impl Series {
    fn line(&self, started: Timestamp) -> String {
        let after = |at: &Timestamp| -> Duration { between(started, *at) };
        let mut line = label(&self.condition) + ": ";
        for (index, (at, reading)) in self.changes.iter().enumerate() {
            if index == KEPT && self.dropped > 0 {
                line += &format!(" → ({} more)", self.dropped);
            }
            line += &match index {
                0 => reading.to_string(),
                _ => format!(" → {reading} (+{})", short(after(at))),
            };
        }
        line
    }
}

/// Collects the conditions without parts.
fn collect(condition: &Condition, all: &mut Vec<Series>) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => parts.iter().for_each(|part| collect(part, all)),
        Condition::Not(part) => collect(part, all),
        condition => all.push(Series {
            condition: condition.clone(),
            changes: Vec::new(),
            dropped: 0,
        }),
    }
}

/// What a condition reads.
fn label(condition: &Condition) -> String {
    match condition {
        Condition::Phase(phase) => format!("phase of {}", phase.machine),
        Condition::MachineGone(name) => format!("machine {name}"),
        Condition::NodeGone(name) => format!("node {name}"),
        Condition::Exists(object) => format!("{} {}", object.kind, object.name),
        Condition::Observed(object) => format!("observed generation of {} {}", object.kind, object.name),
        Condition::VmCount(count) => format!("VMs of {}", count.machine),
        Condition::Calls(calls) => format!("{} for {}", calls.call.rpc(), calls.machine),
        Condition::ErrorCode(code) => format!("error code of {}", code.machine),
        Condition::DescriptionContains(text) => format!("last operation of {}", text.machine),
        Condition::History(history) => format!("phases of {}", history.machine),
        Condition::Field(field) => format!("{} of {} {}", field.field, field.kind, field.name),
        Condition::Unchanged(field) => format!("{} of {} {}", field.field, field.kind, field.name),
        Condition::Pods(pods) => {
            let state = pods.are.map(|state| format!("{state} ")).unwrap_or_default();
            let on = pods.on.as_ref().map(|on| format!(" on {on}")).unwrap_or_default();
            format!("{state}pods of {}{on}", pods.of)
        }
        Condition::SamePods(on) => format!("pods of {} on {}", on.of, on.on),
        Condition::Attached(attached) => format!("nodes with the volume of {}", attached.claim),
        Condition::VolumesOf(volumes) => format!("volumes of {}", volumes.claim),
        Condition::EventCount(events) => format!("events {} about {} {}", events.reason, events.kind, events.name),
        Condition::FaultHits(hits) => format!("hits of fault {}", hits.fault),
        Condition::All(_) | Condition::Any(_) | Condition::Not(_) => String::new(),
    }
}

/// The current value of a condition.
fn read<'a>(condition: &Condition, world: &'a WorldState) -> Reading<'a> {
    let number = |number: usize| Reading::Number(u64::try_from(number).unwrap_or(u64::MAX));
    let existence = |object: Option<&Value>| match object {
        None => Reading::Text("does not exist"),
        Some(object) if text(object, "/metadata/deletionTimestamp").is_empty() => Reading::Text("exists"),
        Some(_) => Reading::Text("is being deleted"),
    };
    let in_machine = |name: &str, pointer: &str| match world.object("Machine", name) {
        None => Reading::Text("no machine"),
        Some(machine) => match text(machine, pointer) {
            "" => Reading::Text("none"),
            text => Reading::Text(text),
        },
    };
    let field = |object: Option<&'a Value>, pointer: &str| {
        let value = object.and_then(|object| scenario::value_at(object, pointer));
        Reading::Json(value.unwrap_or(&Value::Null))
    };
    match condition {
        Condition::Phase(phase) => in_machine(&phase.machine, "/status/currentStatus/phase"),
        Condition::MachineGone(name) => existence(world.object("Machine", name)),
        Condition::NodeGone(name) => existence(world.object("Node", name)),
        Condition::Exists(object) => existence(world.referenced(object)),
        Condition::Observed(object) => field(world.referenced(object), "/status/observedGeneration"),
        Condition::VmCount(count) => number(world.vms_of(&count.machine).count()),
        Condition::Calls(calls) => Reading::Number(call_count(world, calls.call.rpc(), &calls.machine)),
        Condition::ErrorCode(code) => in_machine(&code.machine, "/status/lastOperation/errorCode"),
        Condition::DescriptionContains(text) => in_machine(&text.machine, "/status/lastOperation/description"),
        Condition::History(history) => {
            let phases = world.machines.get(&history.machine).map(|seen| seen.phases.as_slice());
            let last = phases.and_then(<[_]>::last);
            Reading::Text(last.map_or("none", |(_, phase)| phase.as_str()))
        }
        Condition::Field(of) => field(world.named(of.api_version.as_deref(), &of.kind, &of.name), &of.field),
        Condition::Unchanged(of) => field(world.named(of.api_version.as_deref(), &of.kind, &of.name), &of.field),
        Condition::Pods(pods) => number(workloads::selected(pods, world).count()),
        Condition::SamePods(on) => number(workloads::on_node(on, world).count()),
        Condition::Attached(attached) => number(workloads::nodes_of(attached, world).len()),
        Condition::VolumesOf(volumes) => number(workloads::volumes_for(&volumes.claim, world).count()),
        Condition::EventCount(events) => number(event_count(events, world)),
        Condition::FaultHits(hits) => Reading::Number(hit_count(&hits.fault, world)),
        Condition::All(_) | Condition::Any(_) | Condition::Not(_) => Reading::Text(""),
    }
}
