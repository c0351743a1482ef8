//! The order in which a set deletes its machines.

use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::{Machine, Phase, PreservedBy, keys};

use crate::remediation::is_unwanted;

/// Whether a machine counts for its set: it is neither being deleted nor Terminating.
pub fn is_active(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none() && machine.status.current_status.phase != Some(Phase::Terminating)
}

/// Sorts machines, the first candidate for deletion first: not preserved before preserved; lower priority first;
/// machines that the autoscaler marked before others, the earlier mark first; less useful phase first, where a machine
/// that a health check wants replaced is as useful as an Unknown one; older first; by name.
///
/// Among preserved machines: automatically before manually preserved, failed before others, earlier expiry first, older
/// first.
pub fn rank(machines: &mut [Arc<Machine>]) {
    let keyed = machines.iter().map(|machine| (Rank::of(machine), Arc::clone(machine)));
    let mut keyed: Vec<(Rank, Arc<Machine>)> = keyed.collect();
    keyed.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.metadata.name.cmp(&other.metadata.name)));
    for (place, (_, machine)) in machines.iter_mut().zip(keyed) {
        *place = machine;
    }
}

/// The sort key of a machine, without its name. It is computed once per machine, because annotations are parsed for it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    preservation: Option<Preservation>,
    priority: i64,
    mark: (bool, Option<Timestamp>),
    usefulness: u8,
    created: Option<Timestamp>,
}

/// The sort key of preserved machines: requested by a user, not failed, expiry, creation time.
type Preservation = (bool, bool, Option<Timestamp>, Option<Timestamp>);

impl Rank {
    fn of(machine: &Machine) -> Self {
        Self {
            preservation: machine.status.is_kept().then(|| preservation(machine)),
            priority: priority(machine),
            mark: mark(machine),
            usefulness: usefulness(machine),
            created: created(machine),
        }
    }
}

fn preservation(machine: &Machine) -> Preservation {
    let record = machine.status.preservation.as_ref();
    let automatic = record.is_some_and(|record| record.by == PreservedBy::Auto);
    let failed = machine.status.current_status.base() == Some(&Phase::Failed);
    let expiry = machine.status.current_status.preserve_expiry_time.as_ref();
    (!automatic, !failed, expiry.map(|time| time.0), created(machine))
}

/// The machine's priority; the default if there is none or it is no number.
pub(crate) fn priority(machine: &Machine) -> i64 {
    let default = keys::DEFAULT_PRIORITY.parse().unwrap_or(3);
    annotation(machine, keys::PRIORITY_ANNOTATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// The sort key of the autoscaler's mark; unmarked machines come last.
fn mark(machine: &Machine) -> (bool, Option<Timestamp>) {
    let time = marked(machine);
    (time.is_none(), time)
}

/// When the autoscaler marked the machine.
pub(crate) fn marked(machine: &Machine) -> Option<Timestamp> {
    annotation(machine, keys::MARKED_ANNOTATION)?.parse().ok()
}

/// The usefulness of an Unknown machine, and of one that a health check wants replaced.
const IN_DOUBT: u8 = 4;

fn usefulness(machine: &Machine) -> u8 {
    let by_phase = by_phase(machine);
    if is_unwanted(machine) {
        by_phase.min(IN_DOUBT)
    } else {
        by_phase
    }
}

fn by_phase(machine: &Machine) -> u8 {
    match machine.status.current_status.base() {
        Some(Phase::Terminating) => 0,
        Some(Phase::Failed) => 1,
        Some(Phase::CrashLoopBackOff) => 2,
        // A machine that never joined runs no pods, and neither does one without a phase.
        Some(Phase::Pending) | None => 3,
        Some(Phase::Unknown) => IN_DOUBT,
        Some(Phase::InPlaceUpdateFailed) => 5,
        Some(Phase::Available) => 6,
        Some(Phase::InPlaceUpdating | Phase::InPlaceUpdateSuccessful) => 7,
        Some(Phase::Running | Phase::RunningPreserved | Phase::FailedPreserved | Phase::Other(_)) => 8,
    }
}

fn created(machine: &Machine) -> Option<Timestamp> {
    machine.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn annotation<'a>(machine: &'a Machine, key: &str) -> Option<&'a str> {
    machine.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// The order of two machines, rule by rule.
    fn compare(a: &Machine, b: &Machine) -> Ordering {
        let kept = |machine: &Machine| machine.status.is_kept();
        let of_kept = if kept(a) && kept(b) {
            preservation(a).cmp(&preservation(b))
        } else {
            Ordering::Equal
        };
        kept(a)
            .cmp(&kept(b))
            .then(of_kept)
            .then(priority(a).cmp(&priority(b)))
            .then(mark(a).cmp(&mark(b)))
            .then(usefulness(a).cmp(&usefulness(b)))
            .then(created(a).cmp(&created(b)))
            .then(a.metadata.name.cmp(&b.metadata.name))
    }

    fn machine(
        number: usize,
        (phase, second, priority, marked, preserved): (u8, u8, u8, bool, Option<bool>),
    ) -> Machine {
        let phases = [
            "Running",
            "Available",
            "Pending",
            "Unknown",
            "Failed",
            "CrashLoopBackOff",
        ];
        let time = |seconds: u8| format!("2026-01-01T00:00:0{}Z", seconds % 4);
        let mut machine: Machine = serde_json::from_value(json!({
            "metadata": {
                "name": format!("m-{number}"),
                "annotations": { keys::PRIORITY_ANNOTATION: (priority % 4).to_string() },
            },
            "spec": { "class": { "kind": "MachineClass", "name": "a" } },
            "status": { "currentStatus": { "phase": phases[usize::from(phase) % phases.len()] } },
        }))
        .unwrap();
        machine.metadata.creation_timestamp = Some(Time(time(second).parse().unwrap()));
        let annotations = machine.metadata.annotations.get_or_insert_default();
        if marked {
            annotations.insert(keys::MARKED_ANNOTATION.to_owned(), time(second / 2));
        }
        if let Some(automatic) = preserved {
            machine.status.preservation = Some(mcm_api::Preservation {
                stage: mcm_api::PreservationStage::Preserved,
                by: if automatic {
                    PreservedBy::Auto
                } else {
                    PreservedBy::Machine
                },
                ..mcm_api::Preservation::default()
            });
            machine.status.current_status.preserve_expiry_time = Some(Time(time(second / 3).parse().unwrap()));
        }
        machine
    }

    /// The second machine is older, so that it is deleted first if nothing else differs.
    #[rstest]
    #[case::none(json!([]), json!({}), "Running", false)]
    #[case::requested(json!(["HealthCheckSucceeded", "OwnerRemediated"]), json!({}), "Running", true)]
    #[case::handed_to_another_controller(json!(["HealthCheckSucceeded"]), json!({}), "Running", false)]
    #[case::excluded(
        json!(["HealthCheckSucceeded", "OwnerRemediated"]),
        json!({ keys::SKIP_REMEDIATION_ANNOTATION: "" }),
        "Running",
        false
    )]
    #[case::beside_one_that_never_joined(json!(["HealthCheckSucceeded", "OwnerRemediated"]), json!({}), "Pending", false)]
    fn a_machine_that_a_health_check_wants_replaced_precedes_running_ones(
        #[case] failed: Value,
        #[case] annotations: Value,
        #[case] phase_of_other: &str,
        #[case] first: bool,
    ) {
        let conditions: Vec<Value> = failed
            .as_array()
            .into_iter()
            .flatten()
            .map(|type_| json!({ "type": type_, "status": "False" }))
            .collect();
        let machine = |name: &str, created: &str, annotations: &Value, phase: &str, conditions: &[Value]| -> Machine {
            serde_json::from_value(json!({
                "metadata": { "name": name, "creationTimestamp": created, "annotations": annotations },
                "spec": { "class": { "kind": "MachineClass", "name": "a" } },
                "status": { "currentStatus": { "phase": phase }, "conditions": conditions },
            }))
            .unwrap()
        };
        let mut machines = [
            machine("one", "2026-01-01T00:00:02Z", &annotations, "Running", &conditions),
            machine("other", "2026-01-01T00:00:01Z", &json!({}), phase_of_other, &[]),
        ]
        .map(Arc::new);
        rank(&mut machines);
        assert_eq!(machines[0].metadata.name.as_deref() == Some("one"), first);
    }

    proptest! {
        #[test]
        fn machines_are_sorted_by_the_rules(shapes in proptest::collection::vec(any::<(u8, u8, u8, bool, Option<bool>)>(), 0..16)) {
            let machines = (0..).zip(shapes).map(|(number, shape)| Arc::new(machine(number, shape)));
            let mut ranked: Vec<Arc<Machine>> = machines.collect();
            let mut sorted = ranked.clone();
            rank(&mut ranked);
            sorted.sort_by(|a, b| compare(a, b));
            let names = |machines: &[Arc<Machine>]| -> Vec<Option<String>> {
                machines.iter().map(|machine| machine.metadata.name.clone()).collect()
            };
            prop_assert_eq!(names(&ranked), names(&sorted));
        }
    }
}
