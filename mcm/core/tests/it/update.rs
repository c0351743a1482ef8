//! Hot update: the class's provider spec changes, and the VM follows.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Code, DriverError, Operation, Phase, State, keys};
use mcm_core::machine::{Action, Answer, Plan, Reason, View};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixtures::*;

/// A Running machine with the last applied provider spec `applied`, whose class has `wanted`.
fn machine_with(applied: Option<&Value>, wanted: &Value) -> View {
    let mut view = running();
    class_mut(&mut view).provider_spec = wanted.clone();
    if let Some(applied) = applied {
        annotate(
            &mut view,
            keys::LAST_APPLIED_PROVIDER_SPEC_ANNOTATION,
            &applied.to_string(),
        );
    }
    view
}

fn annotate(view: &mut View, key: &str, value: &str) {
    let annotations = view.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
}

fn old() -> Value {
    json!({ "tags": { "a": "1" } })
}

fn new() -> Value {
    json!({ "tags": { "a": "2" } })
}

fn with_update(view: &mut View, state: State, code: &str) {
    set_operation(view, Operation::Update, state, "Updating VM on cloud provider");
    view.machine.status.last_operation.as_mut().unwrap().error_code = code.to_owned();
}

fn result(view: View, spec: &Value, result: Result<(), DriverError>) -> Plan {
    let spec = spec.to_string();
    decided(&answered(view, Answer::Update { spec, result }), minute(1))
}

fn operation(plan: &Plan) -> (Option<Operation>, Option<State>) {
    let operation = plan
        .status
        .as_ref()
        .and_then(|status| status.last_operation.clone())
        .unwrap_or_default();
    (operation.operation, operation.state)
}

#[test]
fn a_new_machine_records_the_provider_spec_of_its_vm() {
    let mut view = new_machine();
    class_mut(&mut view).provider_spec = old();
    let plan = decided(&answered(view, Answer::Create(Ok(vm()))), minute(1));
    assert_eq!(
        actions(&plan)[0],
        "patch node=worker-x7k2p priority=3 provider=fakecloud:///z1/worker-x7k2p spec={\"tags\":{\"a\":\"1\"}}"
    );
}

#[test]
fn a_machine_with_the_current_provider_spec_is_not_updated() {
    let plan = decided(&machine_with(Some(&old()), &old()), minute(1));
    assert_eq!(plan.reason, Reason::Nothing);
}

#[test]
fn an_update_is_written_to_the_status_then_applied_then_recorded() {
    let mut view = machine_with(Some(&old()), &new());
    let plan = decided(&view, minute(1));
    assert_eq!(operation(&plan), (Some(Operation::Update), Some(State::Processing)));
    assert!(actions(&plan).is_empty(), "the status is written before the call");
    view.machine.status = plan.status.unwrap();

    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), ["call Update"]);
    let Some(Action::Call(call)) = plan.actions.last() else {
        panic!()
    };
    assert_eq!(call.last_applied, Some(old().to_string()));

    let plan = result(view, &new(), Ok(()));
    assert_eq!(actions(&plan), ["patch spec={\"tags\":{\"a\":\"2\"}}"]);
    assert_eq!(operation(&plan), (Some(Operation::Update), Some(State::Successful)));
}

#[test]
fn a_machine_without_a_recorded_provider_spec_is_updated_once() {
    let view = machine_with(None, &old());
    assert_eq!(actions(&decided(&view, minute(1))), ["call Update"]);
    let plan = result(view, &old(), Ok(()));
    assert_eq!(actions(&plan), ["patch spec={\"tags\":{\"a\":\"1\"}}"]);
    assert_eq!(plan.status, None);
}

#[test]
fn an_unimplemented_update_call_is_not_repeated_for_each_machine() {
    let mut view = machine_with(None, &old());
    let plan = result(view.clone(), &old(), Err(error(Code::Unimplemented)));
    assert_eq!((plan.status, plan.actions.len()), (None, 0));
    view.cannot_update = true;
    assert_eq!(decided(&view, minute(1)).reason, Reason::Nothing);
}

#[test]
fn an_unimplemented_update_call_is_reported_once() {
    let mut view = machine_with(Some(&old()), &new());
    with_update(&mut view, State::Processing, "");
    let plan = result(view.clone(), &new(), Err(error(Code::Unimplemented)));
    assert!(
        written(&plan).3.starts_with("The driver cannot update VMs"),
        "{:?}",
        written(&plan)
    );
    view.machine.status = plan.status.unwrap();
    assert_eq!(decided(&view, minute(60)).reason, Reason::Nothing);
}

/// The class is reverted after the update failed, or after the process crashed during the call.
#[rstest]
#[case::failed_and_reverted(State::Failed, "Internal")]
#[case::crashed_and_reverted(State::Processing, "")]
fn a_started_update_is_finished_after_the_class_is_reverted(#[case] state: State, #[case] code: &str) {
    let mut view = machine_with(Some(&old()), &old());
    with_update(&mut view, state, code);
    let plan = decided(&view, minute(10));
    assert_eq!(actions(&plan), ["call Update"]);
    let plan = result(view, &old(), Ok(()));
    assert_eq!(operation(&plan), (Some(Operation::Update), Some(State::Successful)));
}

#[rstest]
#[case::soon(Code::Unavailable, 5)]
#[case::later(Code::Internal, 180)]
fn a_failed_update_is_retried_after_its_period(#[case] code: Code, #[case] seconds: u64) {
    let mut view = machine_with(Some(&old()), &new());
    with_update(&mut view, State::Processing, "");
    let plan = result(view.clone(), &new(), Err(error(code)));
    assert_eq!(
        (plan.wake, written(&plan).2),
        (Some(secs(seconds)), code.name().to_owned())
    );
    view.machine.status = plan.status.unwrap();
    let again = View {
        call_failed: Some(minute(9)),
        ..view.clone()
    };
    let plan = decided(&again, minute(9).checked_add(secs(1)).unwrap());
    assert_eq!(
        plan.reason,
        Reason::WaitingToRepeat(secs(seconds - 1)),
        "the call failed again with the same error"
    );
    let at = minute(1).checked_add(secs(seconds - 1)).unwrap();
    assert_eq!(decided(&view, at).reason, Reason::WaitingToRepeat(secs(1)));
    view.hurry = true;
    assert_eq!(
        actions(&decided(&view, at)),
        ["call Update"],
        "an edit of the class ends the wait"
    );
}

#[test]
fn an_update_in_progress_is_kept_when_the_node_turns_unhealthy() {
    let mut view = machine_with(Some(&old()), &new());
    with_update(&mut view, State::Failed, "Internal");
    view = with_node(view, node(&unhealthy()));
    let plan = decided(&view, minute(2));
    assert_eq!(written(&plan).0, "Unknown");
    assert!(
        actions(&plan)[0].starts_with("patch inflight-providerspec-hash="),
        "{:?}",
        actions(&plan)
    );
    annotate(&mut view, keys::INFLIGHT_PROVIDER_SPEC_ANNOTATION, "some");
    view.machine.status = plan.status.unwrap();
    class_mut(&mut view).provider_spec = old();
    assert_eq!(actions(&decided(&view, minute(3))), ["call Update"]);
    let plan = result(view, &old(), Ok(()));
    assert_eq!(
        actions(&plan),
        ["patch spec={\"tags\":{\"a\":\"1\"}} inflight-providerspec-hash="]
    );
}

#[rstest]
#[case::no_vm_yet(None)]
#[case::failed(Some(Phase::Failed))]
#[case::in_creation(Some(Phase::CrashLoopBackOff))]
fn a_machine_in_creation_or_replacement_is_not_updated(#[case] phase: Option<Phase>) {
    let mut view = machine_with(Some(&old()), &new());
    view.machine.status.current_status.phase = phase;
    view = with_node(view, node(&unhealthy()));
    let texts = actions(&decided(&view, minute(1)));
    assert!(!texts.contains(&"call Update".to_owned()), "{texts:?}");
}

#[test]
fn a_machine_being_deleted_is_not_updated() {
    let mut view = machine_with(Some(&old()), &new());
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    assert!(!actions(&decided(&view, minute(1))).contains(&"call Update".to_owned()));
}

#[test]
fn the_order_of_provider_spec_fields_is_irrelevant() {
    let mut view = machine_with(None, &json!({ "a": 1, "b": 2 }));
    annotate(
        &mut view,
        keys::LAST_APPLIED_PROVIDER_SPEC_ANNOTATION,
        "{\"b\": 2, \"a\": 1}",
    );
    let annotations: BTreeMap<_, _> = view.machine.metadata.annotations.clone().unwrap();
    assert!(annotations.contains_key(keys::LAST_APPLIED_PROVIDER_SPEC_ANNOTATION));
    assert_eq!(decided(&view, minute(1)).reason, Reason::Nothing);
}
