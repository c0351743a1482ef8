//! The signatures of failures: what a violation or a missed expectation has in common with others of the same defect.

use std::collections::BTreeSet;

use mcm_api::Phase;
use scenario::Timeouts;
use scenario::cloud::VmState;
use scenario::expect::{Condition, Expectation, Temporal};
use scenario::signature::{Cause, Signature, generalised};
use serde_json::Value;

use crate::evaluate::{call_count, event_count, field_value, history_mismatch, hit_count, holds};
use crate::invariants::Violation;
use crate::object::{is_deleting, text};
use crate::workloads;
use crate::world::WorldState;

/// The signature of a violation: its text without the names of objects.
pub fn of_violation(violation: &Violation, world: &WorldState) -> Signature {
    of_reason(
        Cause::Invariant(violation.invariant.to_owned()),
        &violation.objects,
        world,
    )
}

/// The signature of a failure that only a text describes.
pub fn of_reason(cause: Cause, reason: &str, world: &WorldState) -> Signature {
    Signature {
        cause,
        ways: BTreeSet::from([generalised(reason, |word| {
            world.kind_of_name(word).or_else(|| is_state(word).then_some("state"))
        })]),
    }
}

/// Whether a word of a message is the state of a VM or the phase of a machine, which differ between runs.
fn is_state(word: &str) -> bool {
    Phase::TEXTS.contains(&word) || VM_STATES.iter().any(|state| state.name() == word)
}

const VM_STATES: [VmState; 5] = [
    VmState::Pending,
    VmState::Running,
    VmState::Stopped,
    VmState::Stopping,
    VmState::Terminated,
];

/// The signature of a missed expectation: the conditions that contradict it, and how.
pub(crate) fn of_missed(
    expectation: &Expectation,
    that: &Condition,
    world: &WorldState,
    timeouts: &Timeouts,
) -> Signature {
    let (word, wanted) = form(&expectation.holds);
    let mut ways = BTreeSet::new();
    let mut add = |way: String| {
        ways.insert(format!("{word}: {way}"));
    };
    contradictions(that, wanted, world, timeouts, &mut add);
    if ways.is_empty() {
        // The condition is as wanted now: it became so too late, not for long enough, or too often.
        let what = subject(&expectation.that);
        ways.insert(format!("{word}: {what}: not in time"));
    }
    Signature {
        cause: Cause::Expectation,
        ways,
    }
}

/// The name of a temporal form, and whether it wants the condition to hold.
pub(crate) fn form(holds: &Temporal) -> (&'static str, bool) {
    match holds {
        Temporal::Eventually(_) => ("eventually", true),
        Temporal::Always(_) => ("always", true),
        Temporal::Never(_) => ("never", false),
        Temporal::ForAtLeast(_) => ("forAtLeast", true),
        Temporal::AtMost(_) => ("atMost", false),
        Temporal::Throughout => ("throughout", true),
    }
}

/// Passes each part of a condition that is not `wanted` to `add`.
fn contradictions(
    condition: &Condition,
    wanted: bool,
    world: &WorldState,
    timeouts: &Timeouts,
    add: &mut impl FnMut(String),
) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => {
            for part in parts {
                contradictions(part, wanted, world, timeouts, add);
            }
        }
        Condition::Not(part) => contradictions(part, !wanted, world, timeouts, add),
        part if holds(part, world, timeouts) == wanted => {}
        part if wanted => add(format!("{}: {}", subject(part), observed(part, world, timeouts))),
        part => add(format!("{}: holds", subject(part))),
    }
}

/// What a condition is about, without names and numbers.
fn subject(condition: &Condition) -> String {
    match condition {
        Condition::Phase(phase) => format!("phase {} of Machine", phase.is),
        Condition::MachineGone(_) => "Machine gone".to_owned(),
        Condition::NodeGone(_) => "Node gone".to_owned(),
        Condition::Exists(object) => format!("{} exists", object.kind),
        Condition::Observed(object) => format!("{} observed", object.kind),
        Condition::VmCount(_) => "number of VMs".to_owned(),
        Condition::Calls(calls) => format!("number of {} calls", calls.call.rpc()),
        Condition::ErrorCode(code) => format!("error code {} of Machine", code.is.name()),
        Condition::DescriptionContains(_) => "description of Machine".to_owned(),
        Condition::History(_) => "history of Machine".to_owned(),
        Condition::Field(field) => format!("{} of {}", field.field, field.kind),
        Condition::Unchanged(field) => format!("{} of {} unchanged", field.field, field.kind),
        Condition::Pods(pods) => match pods.are {
            Some(state) => format!("number of {state} Pods"),
            None => "number of Pods".to_owned(),
        },
        Condition::SamePods(_) => "same Pods".to_owned(),
        Condition::Attached(_) => "number of attachments of PersistentVolumeClaim".to_owned(),
        Condition::VolumesOf(_) => "number of volumes of PersistentVolumeClaim".to_owned(),
        Condition::EventCount(events) => format!("number of events {} about {}", events.reason, events.kind),
        Condition::FaultHits(_) => "number of hits of a fault".to_owned(),
        Condition::All(parts) | Condition::Any(parts) => {
            let parts: BTreeSet<String> = parts.iter().map(subject).collect();
            parts.into_iter().collect::<Vec<_>>().join(", ")
        }
        Condition::Not(part) => format!("not {}", subject(part)),
    }
}

/// How a condition that does not hold is contradicted.
fn observed(condition: &Condition, world: &WorldState, timeouts: &Timeouts) -> String {
    let existence = |object: Option<&Value>| match object {
        None => "does not exist",
        Some(object) if is_deleting(object) => "is being deleted",
        Some(_) => "exists",
    };
    let in_machine = |name: &str, pointer: &str| match world.object("Machine", name) {
        None => "no Machine".to_owned(),
        Some(machine) => match text(machine, pointer) {
            "" => "none".to_owned(),
            text => text.to_owned(),
        },
    };
    match condition {
        Condition::Phase(phase) => in_machine(&phase.machine, "/status/currentStatus/phase"),
        Condition::MachineGone(name) => existence(world.object("Machine", name)).to_owned(),
        Condition::NodeGone(name) => existence(world.object("Node", name)).to_owned(),
        Condition::Exists(object) => existence(world.referenced(object)).to_owned(),
        Condition::Observed(object) => existence(world.referenced(object)).to_owned(),
        Condition::VmCount(count) => amount(world.vms_of(&count.machine).count(), Some(count.is)),
        Condition::Calls(calls) => {
            let count = call_count(world, calls.call.rpc(), &calls.machine);
            amount(count, calls.at_least)
        }
        Condition::ErrorCode(code) => in_machine(&code.machine, "/status/lastOperation/errorCode"),
        Condition::DescriptionContains(says) => match world.object("Machine", &says.machine) {
            None => "no Machine".to_owned(),
            Some(_) => "another text".to_owned(),
        },
        Condition::History(history) => history_mismatch(history, world, timeouts),
        Condition::Field(field) => match world.named(field.api_version.as_deref(), &field.kind, &field.name) {
            None => format!("no {}", field.kind),
            Some(_) => value(&field_value(field, world)),
        },
        Condition::Pods(pods) => amount(workloads::selected(pods, world).count(), pods.at_least),
        Condition::Attached(attached) => amount(workloads::nodes_of(attached, world).len(), attached.at_least),
        Condition::VolumesOf(volumes) => {
            let count = workloads::volumes_for(&volumes.claim, world).count();
            amount(count, Some(volumes.is))
        }
        Condition::EventCount(events) => amount(event_count(events, world), events.at_least),
        Condition::FaultHits(hits) => amount(hit_count(&hits.fault, world), Some(hits.at_least)),
        // These are resolved to fields when the expectation starts.
        Condition::Unchanged(_) | Condition::SamePods(_) => "changed".to_owned(),
        Condition::All(_) | Condition::Any(_) | Condition::Not(_) => String::new(),
    }
}

/// A number that violates its bounds is below the minimum, or above the maximum.
fn amount<N: PartialOrd>(number: N, minimum: Option<N>) -> String {
    match minimum {
        Some(minimum) if number < minimum => "too few".to_owned(),
        _ => "too many".to_owned(),
    }
}

/// A value without what differs between runs.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "no value".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(_) => "another number".to_owned(),
        Value::String(text) if text.bytes().any(|byte| byte.is_ascii_digit()) => "another text".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => "another value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;
    use scenario::builder::seconds;
    use scenario::kinds;
    use scenario::observation::{Observation, Seen};
    use serde_json::json;

    use super::*;

    fn world(machines: &[(&str, &str)]) -> WorldState {
        let mut world = WorldState::default();
        for (name, phase) in machines {
            let machine = json!({
                "metadata": { "name": name, "namespace": "drydock" },
                "status": { "currentStatus": { "phase": phase } },
            });
            world.absorb(&Observation {
                at: Timestamp::UNIX_EPOCH,
                what: Seen::Applied(kinds::find("Machine").unwrap(), Box::new(machine)),
            });
        }
        world
    }

    fn missed(that: Value, machines: &[(&str, &str)]) -> Vec<String> {
        let that: Condition = serde_json::from_value(that).unwrap();
        let expectation = Expectation {
            that: that.clone(),
            holds: Temporal::Eventually(seconds(1)),
            meanwhile: false,
            may_miss: false,
        };
        let signature = of_missed(&expectation, &that, &world(machines), &Timeouts::production());
        signature.ways.into_iter().collect()
    }

    #[rstest]
    #[case::another_phase(json!({"phase": {"machine": "a", "is": "Running"}}), &[("a", "Pending")], &["eventually: phase Running of Machine: Pending"])]
    #[case::no_machine(json!({"phase": {"machine": "b", "is": "Running"}}), &[("a", "Pending")], &["eventually: phase Running of Machine: no Machine"])]
    #[case::only_the_failing_parts(
        json!({"all": [{"phase": {"machine": "a", "is": "Running"}}, {"phase": {"machine": "b", "is": "Running"}}, {"phase": {"machine": "c", "is": "Running"}}]}),
        &[("a", "Running"), ("b", "Pending"), ("c", "Pending")],
        &["eventually: phase Running of Machine: Pending"]
    )]
    #[case::the_opposite(json!({"not": {"exists": {"kind": "Machine", "name": "a"}}}), &[("a", "Pending")], &["eventually: Machine exists: holds"])]
    #[case::too_few(json!({"vmCount": {"machine": "a", "is": 1}}), &[("a", "Pending")], &["eventually: number of VMs: too few"])]
    #[case::a_field(json!({"field": {"kind": "Machine", "name": "a", "field": "/status/currentStatus/phase", "is": "Running"}}), &[("a", "Failed")],
        &["eventually: /status/currentStatus/phase of Machine: Failed"])]
    #[case::too_late(json!({"phase": {"machine": "a", "is": "Running"}}), &[("a", "Running")], &["eventually: phase Running of Machine: not in time"])]
    fn an_expectation_fails_in_the_ways_of_its_failing_parts(
        #[case] that: Value,
        #[case] machines: &[(&str, &str)],
        #[case] expected: &[&str],
    ) {
        assert_eq!(missed(that, machines), expected);
    }

    #[test]
    fn a_violation_has_kinds_instead_of_names() {
        let violation = Violation {
            invariant: "I19",
            statement: "",
            objects: "machine alpha is Running without a provider id".to_owned(),
        };
        let signature = of_violation(&violation, &world(&[("alpha", "Running")]));
        assert_eq!(
            signature.to_string(),
            "I19: machine <Machine> is <state> without a provider id"
        );
    }
}
