//! Deletion of the VM.

use super::*;

/// The transition after each result of DeleteMachine.
#[rstest]
#[case::ok(
    Answer::Delete(Ok(None)),
    "Processing",
    "VM deletion was successful. Initiate node object deletion",
    Duration::ZERO
)]
#[case::not_found(
    Answer::Delete(Err(error(Code::NotFound))),
    "Processing",
    "VM not found. Continuing deletion flow. Initiate node object deletion",
    Duration::ZERO
)]
#[case::unavailable(
    Answer::Delete(Err(error(Code::Unavailable))),
    "Failed",
    "VM deletion failed due to - machine codes error: code = [Unavailable] message = [it broke]. However, will re-try \
     in the next resync. Initiate VM deletion",
    secs(5)
)]
#[case::internal(
    Answer::Delete(Err(error(Code::Internal))),
    "Failed",
    "VM deletion failed due to - machine codes error: code = [Internal] message = [it broke]. Aborting operation. \
     Initiate VM deletion",
    mins(10)
)]
fn the_answer_of_the_delete_call_determines_the_next_step(
    #[case] answer: Answer,
    #[case] state: &str,
    #[case] text: &str,
    #[case] wake: Duration,
) {
    let mut view = in_stage(Stage::Vm);
    view.machine.status.last_known_state = "half done".to_owned();
    assert_eq!(actions(&decided(&view, minute(1))), ["call Delete"]);
    let plan = decided(&answered(view, answer), minute(1));
    let (phase, written_state, code, written_text) = written(&plan);
    assert_eq!(
        (&*phase, &*written_state, &*code, &*written_text),
        ("Terminating", state, "", text)
    );
    assert_eq!(plan.wake, Some(wake));
    assert_eq!(
        plan.status.unwrap().last_known_state,
        "",
        "the last known state of the answer replaces the old one"
    );
}

#[rstest]
fn a_deletion_is_retried_after_the_short_period_for_every_transient_code(
    #[values(Code::Unknown, Code::DeadlineExceeded, Code::Aborted, Code::Unavailable)] code: Code,
) {
    let plan = decided(
        &answered(in_stage(Stage::Vm), Answer::Delete(Err(error(code)))),
        minute(1),
    );
    assert_eq!(plan.wake, Some(secs(5)));
}

#[test]
fn a_failed_deletion_waits_for_its_retry_period_regardless_of_wake_ups() {
    let mut view = answered(in_stage(Stage::Vm), Answer::Delete(Err(error(Code::Internal))));
    view.machine.status = decided(&view, minute(1)).status.unwrap();
    view.answers.clear();
    assert_eq!(decided(&view, minute(2)).reason, Reason::WaitingToRepeat(mins(9)));
    assert_eq!(decided(&view, minute(11)).reason, Reason::DeleteVm);
    // The call failed again with the same error, which is not written to the status.
    view.call_failed = Some(minute(11));
    assert_eq!(decided(&view, minute(12)).reason, Reason::WaitingToRepeat(mins(9)));
    assert_eq!(decided(&view, minute(21)).reason, Reason::DeleteVm);
    view.hurry = true;
    assert_eq!(decided(&view, minute(2)).reason, Reason::DeleteVm);
}

#[test]
fn the_driver_gets_the_provider_id_of_the_vm_to_delete() {
    let plan = decided(&in_stage(Stage::Vm), minute(1));
    let Some(Action::Call(call)) = plan.actions.first() else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (call.kind, call.machine.spec.provider_id.as_str()),
        (CallKind::Delete, PROVIDER_ID)
    );
}

#[rstest]
#[case(Stage::FindVm)]
#[case(Stage::Drain)]
#[case(Stage::Vm)]
fn a_missing_class_blocks_the_deletion_and_is_reported(#[case] stage: Stage) {
    let view = View {
        class: None,
        ..in_stage(stage)
    };
    let plan = decided(&view, minute(1));
    let status = plan.status.unwrap();
    assert_eq!(Stage::of(&status), Some(stage), "the stage does not change");
    let operation = status.last_operation.unwrap();
    assert!(
        operation
            .description
            .starts_with("the machine class small does not exist in namespace garden")
    );
    assert_eq!(
        (operation.operation, operation.state),
        (Some(Operation::Delete), Some(State::Failed))
    );
    assert_eq!(plan.wake, Some(mins(10)));
}

#[test]
fn a_deletion_without_a_vm_needs_no_class() {
    let view = View {
        class: None,
        ..in_stage(Stage::Finalizer)
    };
    assert_eq!(actions(&decided(&view, minute(1))), ["remove finalizer"]);
}

#[test]
fn a_vm_created_meanwhile_is_recorded_after_a_conflict_with_the_deletion() {
    let mut view = answered(new_machine(), Answer::Create(Ok(vm())));
    let patch = decided(&view, minute(1))
        .actions
        .into_iter()
        .find(|action| matches!(action, Action::PatchMachine(_)))
        .unwrap();
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    view.failure = failed(&patch, true, false);
    assert_eq!(
        actions(&decided(&view, minute(1))),
        ["patch node=worker-x7k2p priority=3 provider=fakecloud:///z1/worker-x7k2p"]
    );
    view.failure = failed(&patch, false, false);
    let plan = decided(&view, minute(1));
    assert_eq!(
        (actions(&plan).len(), plan.wake),
        (0, Some(secs(5))),
        "a failed write is not retried at once"
    );
}

#[test]
fn the_last_known_state_is_written_although_the_error_repeats() {
    let mut view = in_stage(Stage::Vm);
    let failed = || error(Code::Unavailable);
    let first = decided(&answered(view.clone(), Answer::Delete(Err(failed()))), minute(1));
    view.machine.status = first.status.unwrap();
    let vm = VmIdentity {
        last_known_state: Some("disk detached".to_owned()),
        ..VmIdentity::default()
    };
    let again = DriverError {
        vm: Some(Box::new(vm)),
        ..failed()
    };
    let plan = decided(&answered(view, Answer::Delete(Err(again))), minute(2));
    let written = plan.status.map(|status| status.last_known_state);
    assert_eq!(written.as_deref(), Some("disk detached"));
}

#[test]
fn a_vm_whose_node_name_no_label_can_contain_is_deleted_without_it() {
    let mut view = in_stage(Stage::FindVm);
    view.machine.metadata.labels = None;
    let vm = VmIdentity {
        node_name: NodeName::new("n".repeat(64)),
        ..vm()
    };
    let plan = decided(&answered(view, Answer::Status(Ok(vm))), minute(1));
    let (_, _, _, text) = written(&plan);
    assert!(text.ends_with("Initiate node drain"), "{text}");
}
