//! Single decisions about sets: validation, claims, replicas, ranking, propagation to machines, status.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::LastOperation;
use mcm_api::{GoDuration, Machine, MachineDeployment, MachineSet, Phase, State, keys};
use mcm_core::set::{Reason, View, decide, problems, rank};
use mcm_core::steps::{Kind, OwnerAction, Plan};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixtures::start;

pub fn set(replicas: i32) -> MachineSet {
    serde_json::from_value(json!({
        "metadata": {
            "name": "ms", "namespace": "default", "uid": "uid-ms", "resourceVersion": "7", "generation": 1,
            "finalizers": [keys::MACHINE_FINALIZER],
        },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "a": "1" } },
            "template": {
                "metadata": { "labels": { "a": "1" }, "annotations": { "from": "template" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }))
    .unwrap()
}

pub fn machine(name: &str, phase: Phase) -> Machine {
    let mut machine: Machine = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "3",
            "labels": { "a": "1" },
            "ownerReferences": [{
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "ms", "uid": "uid-ms",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
    }))
    .unwrap();
    machine.metadata.creation_timestamp = Some(Time(start()));
    machine.status.current_status.phase = Some(phase);
    machine.status.current_status.last_update_time = Some(Time(start()));
    machine
}

pub fn annotated(mut machine: Machine, key: &str, value: &str) -> Machine {
    machine
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(key.to_owned(), value.to_owned());
    machine
}

pub fn view(set: MachineSet, machines: Vec<Machine>) -> View {
    View {
        set,
        machines: machines.into_iter().map(Arc::new).collect(),
        ..View::default()
    }
}

pub fn plan(view: &View) -> Plan<Reason> {
    decide(view, start())
}

pub fn deleted(plan: &Plan<Reason>) -> Vec<String> {
    let names = plan.steps.iter().filter_map(|step| match &step.action {
        OwnerAction::Delete {
            name,
            uid,
            resource_version,
            ..
        } => {
            assert!(uid.is_some() && resource_version.is_some());
            Some(name.clone())
        }
        _ => None,
    });
    names.collect()
}

pub fn created(plan: &Plan<Reason>) -> Vec<Machine> {
    let machines = plan.steps.iter().filter_map(|step| match &step.action {
        OwnerAction::CreateMachines(machines) => Some(machines.clone()),
        _ => None,
    });
    machines.flatten().collect()
}

fn status(plan: &Plan<Reason>) -> Value {
    let mut written = plan.steps.iter().filter_map(|step| match &step.action {
        OwnerAction::WriteStatus { patch, .. } => Some(patch["status"].clone()),
        _ => None,
    });
    written.next().unwrap_or(Value::Null)
}

#[rstest]
#[case::good(json!({}), None)]
#[case::negative(json!({"replicas": -1}), Some("spec.replicas"))]
#[case::no_selector(json!({"selector": null}), Some("spec.selector: Required"))]
#[case::empty_selector(json!({"selector": {"matchLabels": null}}), Some("name at least one label"))]
#[case::no_match(json!({"selector": {"matchLabels": {"a": "2"}}}), Some("does not match"))]
#[case::no_kind(json!({"template": {"spec": {"class": {"kind": ""}}}}), Some("Kind is required"))]
#[case::no_class(json!({"template": {"spec": {"class": {"name": ""}}}}), Some("Name is required"))]
fn an_invalid_set_only_gets_a_condition_and_an_event(#[case] change: Value, #[case] expected: Option<&str>) {
    let mut value = serde_json::to_value(set(1)).unwrap();
    json_patch::merge(&mut value["spec"], &change);
    let set: MachineSet = serde_json::from_value(value).unwrap();
    let problems = problems(&set);
    let Some(expected) = expected else {
        assert_eq!(problems, Vec::<String>::new());
        return;
    };
    assert!(problems[0].contains(expected), "{problems:?}");
    let plan = plan(&view(set, vec![]));
    assert!(created(&plan).is_empty());
    assert_eq!(status(&plan)["machineSetCondition"][0]["type"], "Invalid");
    assert!(
        plan.steps
            .iter()
            .any(|step| matches!(step.action, OwnerAction::RecordEvent { .. }))
    );
}

#[test]
fn a_new_set_gets_its_finalizer_before_any_machine() {
    let mut new = set(2);
    new.metadata.finalizers = None;
    let plan = plan(&view(new, vec![]));
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(plan.steps[0].reason, Reason::FinalizerMissing);
}

#[rstest]
#[case::one_missing(3, 2, 1)]
#[case::equal(2, 2, 0)]
#[case::a_hundred_at_a_time(200, 2, 100)]
fn missing_machines_are_created(#[case] wanted: i32, #[case] existing: usize, #[case] expected: usize) {
    let machines = (0..existing)
        .map(|number| machine(&format!("m-{number}"), Phase::Running))
        .collect();
    assert_eq!(created(&plan(&view(set(wanted), machines))).len(), expected);
}

#[rstest]
#[case::equal(3, false, 1)]
#[case::more(5, false, 1)]
#[case::fewer(2, false, 0)]
#[case::zero(0, false, 0)]
#[case::being_deleted(3, true, 0)]
fn a_set_does_not_exceed_the_replicas_of_its_deployment(
    #[case] replicas: i32,
    #[case] leaving: bool,
    #[case] expected: usize,
) {
    let machines = vec![machine("m-1", Phase::Running), machine("m-2", Phase::Running)];
    let mut deployment = MachineDeployment::default();
    deployment.spec.replicas = replicas;
    deployment.metadata.deletion_timestamp = leaving.then(|| Time(start()));
    let view = View {
        deployment: Some(Arc::new(deployment)),
        ..view(set(3), machines)
    };
    assert_eq!(created(&plan(&view)).len(), expected);
}

#[test]
fn a_new_machine_follows_the_template() {
    let mut set = set(1);
    set.metadata.annotations = Some(BTreeMap::from([(
        keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION.to_owned(),
        "15m30s".to_owned(),
    )]));
    let machines = created(&plan(&view(set, vec![])));
    let machine = &machines[0];
    assert_eq!(machine.metadata.generate_name.as_deref(), Some("ms-"));
    assert_eq!(machine.metadata.labels.as_ref().unwrap()["a"], "1");
    assert_eq!(machine.metadata.annotations.as_ref().unwrap()["from"], "template");
    assert_eq!(
        machine.metadata.owner_references.as_ref().unwrap()[0].controller,
        Some(true)
    );
    let timeout: GoDuration = "15m30s".parse().unwrap();
    assert_eq!(machine.spec.configuration.creation_timeout, Some(timeout));
}

#[rstest]
#[case::one_extra_and_one_failed(1, vec![("m-1", Phase::Running), ("m-2", Phase::Failed)], &["m-2"])]
#[case::one_extra(1, vec![("m-1", Phase::Running), ("m-2", Phase::Pending)], &["m-2"])]
#[case::failed_machines(3, vec![("m-1", Phase::Failed), ("m-2", Phase::Failed), ("m-3", Phase::Running)], &["m-1", "m-2"])]
#[case::none(2, vec![("m-1", Phase::Running), ("m-2", Phase::Unknown)], &[])]
fn surplus_and_failed_machines_are_deleted(
    #[case] wanted: i32,
    #[case] existing: Vec<(&str, Phase)>,
    #[case] expected: &[&str],
) {
    let machines = existing.into_iter().map(|(name, phase)| machine(name, phase)).collect();
    assert_eq!(deleted(&plan(&view(set(wanted), machines))), expected);
}

#[test]
fn a_machine_being_deleted_is_neither_counted_nor_deleted_again() {
    let mut deleted_machine = machine("m-1", Phase::Running);
    deleted_machine.metadata.deletion_timestamp = Some(Time(start()));
    let plan = plan(&view(set(2), vec![deleted_machine, machine("m-2", Phase::Running)]));
    assert_eq!((created(&plan).len(), deleted(&plan).len()), (1, 0));
}

#[rstest]
#[case::frozen(keys::FREEZE_LABEL, "True")]
#[case::updated_in_place(keys::SCALE_UP_DISABLED_LABEL, "true")]
fn a_set_with_a_blocking_label_creates_no_machines(#[case] key: &str, #[case] value: &str) {
    let mut blocked = set(3);
    blocked.metadata.labels = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    assert_eq!(created(&plan(&view(blocked, vec![]))).len(), 0);
}

#[test]
fn a_frozen_set_deletes_nothing_and_updates_its_status() {
    let mut frozen = set(0);
    frozen.metadata.labels = Some(BTreeMap::from([(keys::FREEZE_LABEL.to_owned(), "True".to_owned())]));
    let plan = plan(&view(frozen, vec![machine("m-1", Phase::Running)]));
    assert_eq!(deleted(&plan), Vec::<String>::new());
    assert_eq!(status(&plan)["replicas"], 1);
}

#[rstest]
#[case::upstream_mark("auto-preserved", false)]
#[case::a_late_request("when-failed", true)]
fn a_failed_machine_marked_by_another_controller_is_not_deleted(#[case] value: &str, #[case] is_deleted: bool) {
    let mut failed = machine("m-1", Phase::Failed);
    let annotations = failed.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::PRESERVE_ANNOTATION.to_owned(), value.to_owned());
    let plan = plan(&view(set(1), vec![failed]));
    assert_eq!(!deleted(&plan).is_empty(), is_deleted);
}

/// The machine with an expiry in an hour.
pub fn preserved(mut machine: Machine) -> Machine {
    machine.status.current_status.preserve_expiry_time = Some(Time(at(60)));
    machine
}

pub fn at(minutes: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

#[rstest]
#[case::within_the_replicas(2)]
#[case::beyond_the_surplus(1)]
fn machines_marked_by_the_autoscaler_are_deleted_although_the_replicas_match(#[case] wanted: i32) {
    let mut set = set(wanted);
    set.metadata.annotations = Some(BTreeMap::from([(
        keys::LAST_SCALE_ANNOTATION.to_owned(),
        at(5).to_string(),
    )]));
    let marked = |name: &str| {
        let machine = annotated(machine(name, Phase::Running), keys::PRIORITY_ANNOTATION, "1");
        annotated(machine, keys::MARKED_ANNOTATION, &at(5).to_string())
    };
    let machines = vec![marked("m-1"), marked("m-2"), machine("m-3", Phase::Running)];
    assert_eq!(deleted(&plan(&view(set, machines))), ["m-1", "m-2"]);
}

#[rstest]
#[case::one_created(3, 1, 0)]
#[case::replicas_match(2, 0, 0)]
#[case::only_the_other_is_deleted(0, 0, 1)]
fn a_machine_moved_from_another_set_is_not_chosen_for_deletion(
    #[case] wanted: i32,
    #[case] creations: usize,
    #[case] deletions: usize,
) {
    let mut moved = machine("m-1", Phase::Running);
    let labels = moved.metadata.labels.as_mut().unwrap();
    labels.insert(keys::UPDATE_RESULT_LABEL.to_owned(), "successful".to_owned());
    let plan = plan(&view(set(wanted), vec![moved, machine("m-2", Phase::Running)]));
    assert_eq!((created(&plan).len(), deleted(&plan).len()), (creations, deletions));
}

#[test]
fn machines_are_deleted_in_the_order_of_their_rank() {
    let prioritised =
        |name: &str, priority: &str| annotated(machine(name, Phase::Running), keys::PRIORITY_ANNOTATION, priority);
    let marked = |name: &str, phase: Phase, minutes: i64| {
        annotated(machine(name, phase), keys::MARKED_ANNOTATION, &at(minutes).to_string())
    };
    let mut older = machine("z-older", Phase::Running);
    older.metadata.creation_timestamp = Some(Time(at(-5)));
    let machines = [
        preserved(machine("k-failed-preserved", Phase::FailedPreserved)),
        prioritised("j-five", "5"),
        machine("h-running", Phase::Running),
        older,
        machine("g-available", Phase::Available),
        machine("f-pending", Phase::Pending),
        machine("e-unknown", Phase::Unknown),
        machine("d-crash", Phase::CrashLoopBackOff),
        machine("c-failed", Phase::Failed),
        marked("b-running-later", Phase::Running, 1),
        marked("b-failed-later", Phase::Failed, 1),
        marked("a-marked", Phase::Running, 0),
        prioritised("a-one", "1"),
    ];
    let mut ranked: Vec<_> = machines.into_iter().map(Arc::new).collect();
    rank(&mut ranked);
    let names: Vec<_> = ranked
        .iter()
        .map(|machine| machine.metadata.name.clone().unwrap())
        .collect();
    let expected = [
        "a-one",
        "a-marked",
        "b-failed-later",
        "b-running-later",
        "c-failed",
        "d-crash",
        "f-pending",
        "e-unknown",
        "g-available",
        "z-older",
        "h-running",
        "j-five",
        "k-failed-preserved",
    ];
    assert_eq!(names, expected);
}

#[rstest]
#[case::one(1, &["m-1"])]
#[case::both(0, &["m-1", "m-2"])]
fn a_preserved_machine_is_deleted_last(#[case] wanted: i32, #[case] expected: &[&str]) {
    let machines = vec![
        machine("m-1", Phase::Running),
        preserved(machine("m-2", Phase::FailedPreserved)),
    ];
    assert_eq!(deleted(&plan(&view(set(wanted), machines))), expected);
}

#[test]
fn a_preserved_failed_machine_is_not_deleted_and_counted_separately() {
    let mut failed = preserved(machine("m-1", Phase::FailedPreserved));
    failed.status.last_operation = Some(LastOperation {
        state: Some(State::Failed),
        ..LastOperation::default()
    });
    let plan = plan(&view(set(1), vec![failed]));
    assert_eq!(deleted(&plan), Vec::<String>::new());
    assert_eq!(status(&plan)["preservedFailedReplicas"], 1);
    assert_eq!(status(&plan)["failedMachines"], Value::Null);
}

#[test]
fn a_deleted_set_deletes_its_machines_and_then_removes_its_finalizer() {
    let mut deleted_set = set(2);
    deleted_set.metadata.deletion_timestamp = Some(Time(start()));
    let machines = vec![machine("m-1", Phase::Running), machine("m-2", Phase::Running)];
    assert_eq!(deleted(&plan(&view(deleted_set.clone(), machines))), ["m-1", "m-2"]);
    assert_eq!(plan(&view(deleted_set, vec![])).steps[0].reason, Reason::Released);
}

#[test]
fn template_settings_are_written_to_existing_machines() {
    let mut changed = set(2);
    changed.spec.template.spec.configuration.drain_timeout = Some("1h".parse().unwrap());
    changed.spec.template.spec.class.kind = "OtherClass".to_owned();
    let plan = plan(&view(
        changed,
        vec![machine("m-1", Phase::Running), machine("m-2", Phase::Running)],
    ));
    let patches: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            OwnerAction::Patch {
                kind: Kind::Machine,
                patch,
                ..
            } => Some(patch.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(patches.len(), 2);
    assert_eq!(
        patches[0]["spec"],
        json!({ "drainTimeout": "1h0m0s", "class": { "kind": "OtherClass" } })
    );
    assert_eq!(patches[0]["metadata"]["resourceVersion"], "3");
}

#[test]
fn matching_orphans_are_adopted_and_other_machines_released() {
    let mut orphan = machine("m-1", Phase::Running);
    orphan.metadata.owner_references = None;
    let mut stranger = machine("m-2", Phase::Running);
    stranger.metadata.labels = None;
    let plan = plan(&view(set(2), vec![orphan, stranger]));
    let mut reasons: Vec<_> = plan.steps.iter().map(|step| step.reason.clone()).collect();
    // The last step is an event with the same reason.
    reasons.dedup();
    assert_eq!(
        reasons,
        [Reason::Adopted("m-1".to_owned()), Reason::LetGo("m-2".to_owned())]
    );
}

#[rstest]
#[case::young(19, true)]
#[case::old(20, false)]
fn a_young_machine_gets_an_annotation_on_its_release(#[case] minute: i64, #[case] annotated: bool) {
    let mut stranger = machine("m-1", Phase::Running);
    stranger.metadata.labels = None;
    stranger.metadata.creation_timestamp = Some(Time(start()));
    let plan = decide(&view(set(1), vec![stranger]), at(minute));
    let OwnerAction::Patch { patch, .. } = &plan.steps[0].action else {
        panic!("{plan:#?}");
    };
    let note = &patch["metadata"]["annotations"][keys::RELEASED_BY_ANNOTATION];
    assert_eq!(
        note.as_str().is_some_and(|note| note.starts_with("ms~2")),
        annotated,
        "{note}"
    );
}

#[rstest]
#[case::ready_long_enough(true, 60, 1, None)]
#[case::not_yet(true, 90, 0, Some(30))]
#[case::as_upstream(false, 90, 1, None)]
fn a_machine_is_available_after_min_ready_seconds_if_they_are_honoured(
    #[case] honoured: bool,
    #[case] seconds: i32,
    #[case] available: i64,
    #[case] wake: Option<u64>,
) {
    let mut set = set(1);
    set.spec.min_ready_seconds = seconds;
    let view = View {
        honours_min_ready_seconds: honoured,
        ..view(set, vec![machine("m-1", Phase::Running)])
    };
    let plan = decide(&view, at(1));
    let status = status(&plan);
    assert_eq!(status["availableReplicas"].as_i64().unwrap_or_default(), available);
    assert_eq!(status["readyReplicas"], 1);
    assert_eq!(plan.wake.map(|wake| wake.as_secs()), wake);
}

#[test]
fn a_creation_failure_is_reported_until_it_ends() {
    let failing = View {
        failure: Some("the quota is used up".to_owned()),
        ..view(set(1), vec![])
    };
    let reported = status(&plan(&failing));
    let condition = &reported["machineSetCondition"][0];
    assert_eq!(
        (condition["type"].as_str(), condition["reason"].as_str()),
        (Some("ReplicaFailure"), Some("FailedCreate"))
    );
    let mut set = set(1);
    set.status.conditions = serde_json::from_value(reported["machineSetCondition"].clone()).unwrap();
    let ended = status(&plan(&view(set, vec![machine("m-1", Phase::Running)])));
    assert_eq!(ended["machineSetCondition"], Value::Null);
    assert!(
        ended.as_object().unwrap().contains_key("machineSetCondition"),
        "the condition is removed: {ended}"
    );
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let first = plan(&view(set(1), vec![machine("m-1", Phase::Running)]));
    let mut settled = serde_json::to_value(set(1)).unwrap();
    settled["status"] = status(&first);
    let settled: MachineSet = serde_json::from_value(settled).unwrap();
    let again = decide(&view(settled, vec![machine("m-1", Phase::Running)]), at(60));
    assert_eq!(again.steps, vec![]);
}
