//! Deletion: the stages and their transitions.

mod drain;
mod node;
mod transitions;
mod vm;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::AttachedVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Code, DriverError, NodeName, Operation, Phase, State, VmIdentity, keys};
use mcm_core::machine::{Action, Answer, CallKind, EvictionOutcome, Failure, NodeView, Plan, Pod, Reason, Stage, View};
use rstest::rstest;

use crate::fixtures::*;

fn in_stage(stage: Stage) -> View {
    deleting(stage.phrase())
}

/// A machine that is deleted before its Node is recorded.
fn without_node() -> View {
    let mut view = in_stage(Stage::FindVm);
    view.machine.metadata.labels = None;
    view.node = NodeView::Unknown;
    view
}

fn description(plan: &Plan) -> String {
    written(plan).3
}

fn failed(action: &Action, conflict: bool, not_found: bool) -> Option<Failure> {
    Some(Failure {
        action: action.clone(),
        conflict,
        not_found,
        message: "it broke".to_owned(),
    })
}

#[rstest]
#[case::running(Phase::Running, "ScaleDown")]
#[case::failed(Phase::Failed, "Unhealthy")]
fn a_deletion_begins_with_the_phase_and_the_reason_on_the_node(#[case] phase: Phase, #[case] reason: &str) {
    let mut view = with_conditions(with_vm(phase), &healthy());
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(90)));
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), [format!("terminating condition {reason}")]);
    let expected = "Set machine status to termination. Now, getting VM Status";
    assert_eq!(
        written(&plan),
        (
            "Terminating".into(),
            "Processing".into(),
            String::new(),
            expected.into()
        )
    );
    assert_eq!(plan.status.as_ref().unwrap().current_status.preserve_expiry_time, None);
    view.failure = failed(&plan.actions[0], false, false);
    assert_eq!(
        written(&decided(&view, minute(1))).0,
        "Terminating",
        "a failed condition write does not block the deletion"
    );
}

#[test]
fn a_machine_without_the_finalizer_is_ignored() {
    let mut view = in_stage(Stage::Vm);
    view.machine.metadata.finalizers = None;
    let plan = decided(&view, minute(1));
    assert_eq!(
        (plan.reason, plan.actions.len(), plan.status, plan.wake),
        (Reason::NotOurs, 0, None, Some(mins(10)))
    );
}

#[rstest]
#[case::unknown_text("an unrelated text")]
#[case::no_text("")]
#[case::stage_in_the_middle("Initiate VM deletion failed: it broke")]
fn a_description_that_names_no_stage_starts_the_deletion_again(#[case] text: &str) {
    assert_eq!(
        description(&decided(&deleting(text), minute(1))),
        Stage::FindVm.phrase()
    );
}

#[test]
fn an_error_text_that_names_another_stage_does_not_mislead() {
    let text = "VM deletion failed due to - Initiate machine object finalizer removal. However, will re-try in the \
                next resync. Initiate VM deletion";
    let plan = decided(&deleting(text), minute(1));
    assert_eq!(plan.reason, Reason::DeleteVm);
}

#[test]
fn a_known_node_is_drained_next() {
    assert_eq!(
        description(&decided(&in_stage(Stage::FindVm), minute(1))),
        "Initiate node drain"
    );
}

#[test]
fn without_a_target_cluster_the_vm_is_deleted_next() {
    let view = View {
        target: false,
        ..without_node()
    };
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Running without target cluster, skipping node drain and volume attachment deletion. Initiate VM deletion"
    );
}

#[test]
fn a_node_that_names_the_machine_is_recorded() {
    let view = View {
        labelled_node: NodeName::new("node-7"),
        ..without_node()
    };
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), ["patch node=node-7"]);
    assert_eq!(description(&plan), "Initiate node drain");
}

#[test]
fn a_node_label_removed_during_the_deletion_is_restored() {
    let mut view = in_stage(Stage::Drain);
    view.machine.metadata.labels = None;
    view.labelled_node = NodeName::new("node-7");
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), ["patch node=node-7"]);
    assert_eq!((plan.status, plan.wake), (None, Some(Duration::ZERO)));
    view.labelled_node = None;
    let plan = decided(&view, minute(1));
    assert_eq!(
        description(&plan),
        "Skipping drain as nodeName is not a valid one for machine. Initiate VM deletion"
    );
}

/// The transition after each error code of GetMachineStatus during the deletion.
#[rstest]
#[case::unimplemented(Code::Unimplemented, "Initiate node drain", "Processing", Duration::ZERO)]
#[case::not_found(
    Code::NotFound,
    "VM was not found at provider. Moving forward to node drain. Initiate node drain",
    "Processing",
    Duration::ZERO
)]
#[case::uninitialized(
    Code::Uninitialized,
    "VM instance was not initialized. Moving forward to node drain. Initiate node drain",
    "Processing",
    Duration::ZERO
)]
#[case::unavailable(
    Code::Unavailable,
    "Error occurred with decoding machine error status while getting VM status, aborting with retry. \
     Set machine status to termination. Now, getting VM Status",
    "Failed",
    secs(5)
)]
#[case::internal(
    Code::Internal,
    "Error occurred with decoding machine error status while getting VM status, aborting without retry. machine code: \
     machine codes error: code = [Internal] message = [it broke] \
     Set machine status to termination. Now, getting VM Status",
    "Failed",
    mins(3)
)]
fn the_vm_of_a_machine_without_a_node_is_looked_up(
    #[case] code: Code,
    #[case] text: &str,
    #[case] state: &str,
    #[case] wake: Duration,
) {
    let plan = decided(&answered(without_node(), Answer::Status(Err(error(code)))), minute(1));
    assert_eq!(
        (written(&plan).1.as_str(), description(&plan).as_str(), plan.wake),
        (state, text, Some(wake))
    );
}

#[test]
fn a_found_vm_provides_the_node_of_the_machine() {
    assert_eq!(actions(&decided(&without_node(), minute(1))), ["call Status"]);
    let plan = decided(&answered(without_node(), Answer::Status(Ok(vm()))), minute(1));
    assert_eq!(actions(&plan), ["patch node=worker-x7k2p"]);
    assert_eq!(description(&plan), "Initiate node drain");
}

#[test]
fn a_vm_created_during_the_deletion_of_the_machine_is_recorded() {
    let mut view = new_machine();
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    let plan = decided(&answered(view, Answer::Create(Ok(vm()))), minute(1));
    assert_eq!(
        actions(&plan),
        ["patch node=worker-x7k2p priority=3 provider=fakecloud:///z1/worker-x7k2p"]
    );
    assert_eq!(plan.wake, Some(Duration::ZERO));
}
