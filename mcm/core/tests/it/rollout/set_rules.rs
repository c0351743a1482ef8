//! The rules of sets: how many machines are created or deleted, in which order, and with which settings.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Machine, Phase, Preservation, PreservationStage, PreservedBy, keys};
use mcm_core::set::{Reason, decide, rank};
use mcm_core::steps::{OwnerAction, Plan};
use rstest::rstest;
use serde_json::{Value, json};

use super::sets::{annotated, at, created, deleted, machine, plan, preserved, set, view};
use crate::fixtures::start;

fn running(count: usize) -> Vec<Machine> {
    (0..count)
        .map(|number| machine(&format!("m-{number}"), Phase::Running))
        .collect()
}

#[rstest]
#[case::no_machines(3, 0, 3, 0)]
#[case::two_machines(3, 2, 1, 0)]
#[case::equal(3, 3, 0, 0)]
#[case::one_extra(1, 2, 0, 1)]
#[case::a_hundred_at_once(200, 2, 100, 0)]
#[case::to_zero(0, 2, 0, 2)]
fn machines_are_created_or_deleted_to_match_the_replicas(
    #[case] wanted: i32,
    #[case] existing: usize,
    #[case] creations: usize,
    #[case] deletions: usize,
) {
    let plan = plan(&view(set(wanted), running(existing)));
    assert_eq!((created(&plan).len(), deleted(&plan).len()), (creations, deletions));
}

#[rstest]
#[case::one_of_two(&["m-1"])]
#[case::two(&["m-0", "m-1"])]
fn every_failed_machine_is_deleted(#[case] failed: &[&str]) {
    let mut machines = running(2);
    for machine in &mut machines {
        if failed.contains(&machine.metadata.name.as_deref().unwrap()) {
            machine.status.current_status.phase = Some(Phase::Failed);
        }
    }
    let plan = plan(&view(set(2), machines));
    assert_eq!(deleted(&plan), failed);
    assert!(
        created(&plan).is_empty(),
        "the replacement is created after the deletion began"
    );
}

#[test]
fn machines_are_deleted_by_rank_and_the_unmarked_machine_stays() {
    let marked = |name: &str, phase: Phase, minutes: i64| {
        let machine = annotated(machine(name, phase), keys::PRIORITY_ANNOTATION, "3");
        annotated(machine, keys::MARKED_ANNOTATION, &at(minutes).to_string())
    };
    let machines = vec![
        machine("a-unmarked", Phase::Running),
        marked("b-later", Phase::Running, 1),
        marked("c-later-and-failed", Phase::Failed, 1),
        marked("d-now", Phase::Running, 0),
        annotated(
            machine("e-priority-one", Phase::Running),
            keys::PRIORITY_ANNOTATION,
            "1",
        ),
    ];
    let expected = ["e-priority-one", "d-now", "c-later-and-failed", "b-later"];
    assert_eq!(deleted(&plan(&view(set(1), machines))), expected);
}

fn with_priority(priority: &str) -> Machine {
    annotated(machine("one", Phase::Running), keys::PRIORITY_ANNOTATION, priority)
}

fn in_phase(phase: Phase) -> Machine {
    machine("one", phase)
}

fn created_at(minutes: i64) -> Machine {
    let mut machine = machine("one", Phase::Running);
    machine.metadata.creation_timestamp = Some(Time(at(minutes)));
    machine
}

/// An old machine while its preservation ends.
fn released(machine: Machine) -> Machine {
    let mut machine = preserved(machine);
    machine.metadata.creation_timestamp = created_at(-60).metadata.creation_timestamp;
    machine.status.preservation = Some(Preservation {
        stage: PreservationStage::Releasing,
        ..Preservation::default()
    });
    machine
}

fn kept_by(by: PreservedBy, mut machine: Machine) -> Machine {
    machine.status.preservation = Some(Preservation {
        by,
        stage: PreservationStage::Preserved,
        ..Preservation::default()
    });
    machine
}

/// Automatically preserved, and still draining: without an expiry.
fn draining(mut machine: Machine) -> Machine {
    machine.status.preservation = Some(Preservation {
        by: PreservedBy::Auto,
        stage: PreservationStage::Draining,
        ..Preservation::default()
    });
    machine
}

fn preserved_until(minutes: i64, mut machine: Machine) -> Machine {
    machine.status.current_status.preserve_expiry_time = Some(Time(at(minutes)));
    machine
}

/// Unknown ranks after Pending here; upstream ranks it before.
#[rstest]
#[case::priority_one_before_none(with_priority("1"), in_phase(Phase::Running))]
#[case::no_priority_before_five(in_phase(Phase::Running), with_priority("5"))]
#[case::a_priority_that_is_no_number_is_three(with_priority("soon"), with_priority("4"))]
#[case::terminating_before_failed(in_phase(Phase::Terminating), in_phase(Phase::Failed))]
#[case::failed_before_crashing(in_phase(Phase::Failed), in_phase(Phase::CrashLoopBackOff))]
#[case::crashing_before_pending(in_phase(Phase::CrashLoopBackOff), in_phase(Phase::Pending))]
#[case::pending_before_unknown(in_phase(Phase::Pending), in_phase(Phase::Unknown))]
#[case::unknown_before_available(in_phase(Phase::Unknown), in_phase(Phase::Available))]
#[case::available_before_running(in_phase(Phase::Available), in_phase(Phase::Running))]
#[case::the_older_first(created_at(-2), created_at(-1))]
#[case::failed_before_failed_and_preserved(in_phase(Phase::Failed), preserved(in_phase(Phase::FailedPreserved)))]
#[case::failed_and_preserved_before_running_and_preserved(
    preserved(in_phase(Phase::FailedPreserved)),
    preserved(in_phase(Phase::RunningPreserved))
)]
#[case::running_and_automatic_before_failed_and_requested(
    kept_by(PreservedBy::Auto, preserved(in_phase(Phase::RunningPreserved))),
    kept_by(PreservedBy::Node, preserved(in_phase(Phase::FailedPreserved)))
)]
#[case::draining_before_running_and_preserved(
    draining(in_phase(Phase::Failed)),
    kept_by(PreservedBy::Auto, preserved(in_phase(Phase::RunningPreserved)))
)]
#[case::the_earlier_expiry_before_the_older(
    kept_by(PreservedBy::Node, preserved(created_at(-1))),
    kept_by(PreservedBy::Node, preserved_until(61, created_at(-2)))
)]
#[case::the_older_of_equal_expiries(
    kept_by(PreservedBy::Node, preserved(created_at(-2))),
    kept_by(PreservedBy::Node, preserved(created_at(-1)))
)]
#[case::preserved_last_whatever_their_priority(with_priority("5"), preserved(with_priority("1")))]
#[case::released_before_running(released(in_phase(Phase::Running)), in_phase(Phase::Running))]
#[case::running_before_failed_and_preserved(in_phase(Phase::Running), preserved(in_phase(Phase::FailedPreserved)))]
fn the_rank_determines_which_machine_is_deleted_first(#[case] first: Machine, #[case] second: Machine) {
    let named = |mut machine: Machine, name: &str| {
        machine.metadata.name = Some(name.to_owned());
        std::sync::Arc::new(machine)
    };
    // The names would result in the opposite order; they are compared last.
    let mut ranked = vec![named(second, "a"), named(first, "b")];
    rank(&mut ranked);
    assert_eq!(ranked[0].metadata.name.as_deref(), Some("b"));
}

/// An invalid duration is copied to the machine, and the template's timeout applies.
#[rstest]
#[case::absent(None, Some("5m0s"))]
#[case::valid(Some("15m30s"), Some("15m30s"))]
#[case::no_duration(Some("a while"), Some("5m0s"))]
fn the_creation_timeout_of_a_new_machine(#[case] effective: Option<&str>, #[case] expected: Option<&str>) {
    let mut set = set(1);
    set.spec.template.spec.configuration.creation_timeout = Some("5m".parse().unwrap());
    let key = keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION;
    set.metadata.annotations = effective.map(|text| [(key.to_owned(), text.to_owned())].into());
    let machine = &created(&plan(&view(set, vec![])))[0];
    let timeout = machine
        .spec
        .configuration
        .creation_timeout
        .map(|timeout| timeout.to_string());
    assert_eq!(timeout.as_deref(), expected);
    let annotation = machine.metadata.annotations.as_ref().and_then(|all| all.get(key));
    assert_eq!(annotation.map(String::as_str), effective);
}

fn own_patch(plan: &Plan<Reason>) -> Option<Value> {
    let mut patches = plan.steps.iter().filter_map(|step| match &step.action {
        OwnerAction::Patch { name, patch, .. } if name == "ms" => Some(patch["metadata"]["finalizers"].clone()),
        _ => None,
    });
    patches.next()
}

#[rstest]
#[case::added(false, &[], Some(json!([keys::MACHINE_FINALIZER])))]
#[case::added_to_others(false, &["other"], Some(json!([keys::MACHINE_FINALIZER, "other"])))]
#[case::already_present(false, &[keys::MACHINE_FINALIZER], None)]
#[case::removed(true, &[keys::MACHINE_FINALIZER], Some(json!([])))]
#[case::removed_from_among_others(true, &["other", keys::MACHINE_FINALIZER], Some(json!(["other"])))]
#[case::already_removed(true, &["other"], None)]
fn the_finalizer_of_a_set_is_added_and_removed(
    #[case] leaving: bool,
    #[case] finalizers: &[&str],
    #[case] expected: Option<Value>,
) {
    let mut set = set(0);
    set.metadata.deletion_timestamp = leaving.then(|| Time(start()));
    set.metadata.finalizers = Some(finalizers.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(own_patch(&plan(&view(set, vec![]))), expected);
}

#[rstest]
#[case::it_matches("1", true)]
#[case::its_label_changed("2", false)]
fn a_set_counts_the_machines_that_match(#[case] label: &str, #[case] counts: bool) {
    let mut one = machine("m-1", Phase::Running);
    one.metadata.labels = Some([("a".to_owned(), label.to_owned())].into());
    let plan = decide(&view(set(1), vec![one]), start());
    let released = plan
        .steps
        .iter()
        .any(|step| step.reason == Reason::LetGo("m-1".to_owned()));
    assert_eq!(released, !counts);
    let status = plan.steps.iter().find_map(|step| match &step.action {
        OwnerAction::WriteStatus { patch, .. } => Some(patch["status"]["replicas"].clone()),
        _ => None,
    });
    assert_eq!(status, counts.then(|| json!(1)));
}

#[test]
fn a_deleted_set_does_not_replace_its_machines() {
    let mut set = set(2);
    set.metadata.deletion_timestamp = Some(Time(start()));
    let mut terminating = machine("m-0", Phase::Terminating);
    terminating.metadata.deletion_timestamp = Some(Time(start()));
    let plan = plan(&view(set, vec![terminating, machine("m-1", Phase::Running)]));
    assert_eq!((created(&plan).len(), deleted(&plan)), (0, vec!["m-1".to_owned()]));
}
