//! Deletion: from stage to stage.

use std::time::Duration;

use k8s_openapi::api::core::v1::AttachedVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Code, DriverError, Operation, Phase, State, VmIdentity, keys};
use mcm_core::machine::{Action, Answer, CallKind, Failure, NodeView, Plan, Pod, Reason, Stage, View};
use rstest::rstest;

use crate::fixtures::*;

fn in_stage(stage: Stage) -> View {
    deleting(stage.phrase())
}

/// A machine that is deleted before its Node was known.
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
        "a node that refuses the condition holds nothing up"
    );
}

#[test]
fn a_machine_without_our_finalizer_is_left_alone() {
    let mut view = in_stage(Stage::Vm);
    view.machine.metadata.finalizers = None;
    let plan = decided(&view, minute(1));
    assert_eq!(
        (plan.reason, plan.actions.len(), plan.status, plan.wake),
        (Reason::NotOurs, 0, None, Some(mins(10)))
    );
}

#[rstest]
#[case::unknown_text("somebody wrote this")]
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
        labelled_node: Some("node-7".to_owned()),
        ..without_node()
    };
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), ["patch node=node-7"]);
    assert_eq!(description(&plan), "Initiate node drain");
}

#[test]
fn a_label_that_somebody_takes_away_on_the_way_is_written_again() {
    let mut view = in_stage(Stage::Drain);
    view.machine.metadata.labels = None;
    view.labelled_node = Some("node-7".to_owned());
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

/// The rows of the table of GetMachineStatus in the deletion.
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
fn the_vm_of_a_machine_without_node_is_looked_for(
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
fn a_vm_that_is_found_gives_the_machine_its_node() {
    assert_eq!(actions(&decided(&without_node(), minute(1))), ["call Status"]);
    let plan = decided(&answered(without_node(), Answer::Status(Ok(vm()))), minute(1));
    assert_eq!(actions(&plan), ["patch node=worker-x7k2p"]);
    assert_eq!(description(&plan), "Initiate node drain");
}

#[test]
fn a_vm_that_was_made_while_the_machine_was_deleted_is_recorded() {
    let mut view = new_machine();
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    let plan = decided(&answered(view, Answer::Create(Ok(vm()))), minute(1));
    assert_eq!(
        actions(&plan),
        ["patch node=worker-x7k2p priority=3 provider=fakecloud:///z1/worker-x7k2p"]
    );
    assert_eq!(plan.wake, Some(Duration::ZERO));
}

#[test]
fn pods_are_evicted_from_a_cordoned_node() {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![
        pod("web-1"),
        Pod {
            daemon: true,
            ..pod("proxy")
        },
        Pod {
            mirror: true,
            ..pod("static")
        },
        Pod {
            finished: true,
            ..pod("job")
        },
        Pod {
            ends: Some(minute(2)),
            ..pod("web-0")
        },
    ]);
    let plan = decided(&view, minute(1));
    assert_eq!(
        actions(&plan),
        ["terminating condition ScaleDown", "cordon", "evict job", "evict web-1"]
    );
    assert_eq!(plan.reason, Reason::Draining { waiting: 3 });
    assert_eq!((plan.status, plan.wake), (None, Some(secs(20))));
}

#[test]
fn a_node_without_pods_is_drained() {
    let plan = decided(&in_stage(Stage::Drain), minute(1));
    assert_eq!(
        actions(&plan),
        ["terminating condition ScaleDown", "cordon"],
        "in the same pass"
    );
    assert_eq!(description(&plan), "Drain successful. Initiate VM deletion");
}

#[test]
fn pods_that_are_not_known_are_waited_for() {
    let view = View {
        pods: None,
        ..in_stage(Stage::Drain)
    };
    let plan = decided(&view, minute(1));
    assert_eq!((plan.reason, plan.status), (Reason::PodsUnknown, None));
}

#[test]
fn a_node_that_is_gone_holds_no_drain_up() {
    let view = View {
        node: NodeView::Gone,
        ..in_stage(Stage::Drain)
    };
    let plan = decided(&view, minute(1));
    assert_eq!(
        (actions(&plan).len(), description(&plan).as_str()),
        (0, "Drain successful. Initiate VM deletion")
    );
}

#[test]
fn a_machine_without_node_needs_no_drain() {
    let mut view = in_stage(Stage::Drain);
    view.machine.metadata.labels = None;
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Skipping drain as nodeName is not a valid one for machine. Initiate VM deletion"
    );
}

#[rstest]
#[case("true", true)]
#[case("True", true)]
#[case("1", true)]
#[case("t", true)]
#[case("false", false)]
#[case("yes", false)]
fn the_label_for_forced_deletion_skips_the_drain(#[case] value: &str, #[case] skipped: bool) {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    view.machine
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .insert(keys::FORCE_DELETION_LABEL.to_owned(), value.to_owned());
    let plan = decided(&view, minute(1));
    assert_eq!(
        plan.status.as_ref().and_then(Stage::of),
        skipped.then_some(Stage::VolumeAttachments)
    );
    assert_eq!(actions(&plan).is_empty(), skipped);
}

#[rstest]
#[case::not_ready(&[("Ready", "Unknown")], 6, true)]
#[case::not_ready_for_short(&[("Ready", "Unknown")], 5, false)]
#[case::read_only(&[("Ready", "True"), ("ReadonlyFilesystem", "True")], 6, true)]
#[case::writable(&[("Ready", "True"), ("ReadonlyFilesystem", "False")], 60, false)]
#[case::too_late(&[("Ready", "True")], 120, true)]
#[case::in_time(&[("Ready", "True")], 119, false)]
fn a_dead_node_and_a_late_drain_force_the_pods(
    #[case] conditions: &[(&str, &str)],
    #[case] now: i64,
    #[case] forced: bool,
) {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(type_, status)| condition(type_, status))
        .collect();
    let mut view = with_conditions(in_stage(Stage::Drain), &conditions);
    view.pods = Some(vec![
        pod("web-1"),
        Pod {
            daemon: true,
            ..pod("proxy")
        },
    ]);
    let plan = decided(&view, minute(now));
    if forced {
        assert_eq!(actions(&plan), ["delete pod web-1"]);
        assert_eq!(description(&plan), "Force Drain successful. Delete Volume Attachments");
    } else {
        assert_eq!(plan.reason, Reason::Draining { waiting: 1 });
    }
}

#[test]
fn a_drain_is_looked_at_when_its_time_is_up() {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    let almost = minute(120).checked_sub(secs(7)).unwrap();
    assert_eq!(decided(&view, almost).wake, Some(secs(7)));
}

#[rstest]
#[case::condition(
    0,
    "Drain failed due to failure in update of node conditions - it broke. Will retry in next sync. Initiate node drain"
)]
#[case::cordon(1, "Drain failed due to - it broke. Will retry in next sync. Initiate node drain")]
fn a_node_that_cannot_be_written_is_told_in_the_status(#[case] action: usize, #[case] text: &str) {
    let mut view = in_stage(Stage::Drain);
    view.failure = failed(&decided(&view, minute(1)).actions[action], false, false);
    let plan = decided(&view, minute(1));
    assert_eq!(
        (written(&plan).1.as_str(), description(&plan).as_str(), plan.wake),
        ("Failed", text, Some(secs(5)))
    );
}

#[test]
fn a_node_that_went_under_the_drain_is_no_failure() {
    let mut view = in_stage(Stage::Drain);
    view.failure = failed(&Action::CordonNode { node: NAME.to_owned() }, false, true);
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Drain successful. Initiate VM deletion"
    );
}

#[test]
fn volume_attachments_go_before_the_vm() {
    let gone = View {
        node: NodeView::Absent,
        ..in_stage(Stage::VolumeAttachments)
    };
    assert_eq!(
        description(&decided(&gone, minute(1))),
        "Skipping deleteNodeVolAttachments due to - node \"worker-x7k2p\" not found. Moving to VM Deletion. Initiate VM deletion"
    );
    let mut view = in_stage(Stage::VolumeAttachments);
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Node Volumes for node: worker-x7k2p are already detached. Moving to VM Deletion. Initiate VM deletion"
    );
    let mut node = node(&healthy());
    node.status.as_mut().unwrap().volumes_attached = Some(vec![AttachedVolume::default()]);
    view = with_node(view, node);
    view.volume_attachments = vec!["b".to_owned(), "a".to_owned()];
    let plan = decided(&view, minute(1));
    assert_eq!(
        (actions(&plan), plan.status),
        (
            vec!["delete attachment a".to_owned(), "delete attachment b".to_owned()],
            None
        )
    );
    view.volume_attachments.clear();
    assert_eq!(
        description(&decided(&view, minute(1))),
        "No Live VolumeAttachments for node: worker-x7k2p. Moving to VM Deletion. Initiate VM deletion"
    );
}

/// The rows of the table of DeleteMachine.
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
fn a_vm_is_deleted_until_it_is_gone(
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
        "the answer's memory replaces the old one"
    );
}

#[rstest]
fn every_transient_code_of_a_deletion_is_repeated_shortly(
    #[values(Code::Unknown, Code::DeadlineExceeded, Code::Aborted, Code::Unavailable)] code: Code,
) {
    let plan = decided(
        &answered(in_stage(Stage::Vm), Answer::Delete(Err(error(code)))),
        minute(1),
    );
    assert_eq!(plan.wake, Some(secs(5)));
}

#[test]
fn a_deletion_that_failed_waits_for_its_period_whatever_wakes_the_machine() {
    let mut view = answered(in_stage(Stage::Vm), Answer::Delete(Err(error(Code::Internal))));
    view.machine.status = decided(&view, minute(1)).status.unwrap();
    view.answers.clear();
    assert_eq!(decided(&view, minute(2)).reason, Reason::WaitingToRepeat(mins(9)));
    assert_eq!(decided(&view, minute(11)).reason, Reason::DeleteVm);
    view.hurry = true;
    assert_eq!(decided(&view, minute(2)).reason, Reason::DeleteVm);
}

#[rstest]
#[case::of_a_node_that_came_later(false, pod("web-1"), 1, Some(Stage::Drain))]
#[case::of_a_daemon_set(false, Pod { daemon: true, ..pod("proxy") }, 1, None)]
#[case::that_ended(false, Pod { finished: true, ..pod("web-1") }, 1, None)]
#[case::that_the_drain_left(true, pod("web-1"), 1, None)]
#[case::when_the_time_of_the_drain_is_up(false, pod("web-1"), 121, None)]
fn pods_are_drained_before_the_vm_goes(
    #[case] cordoned: bool,
    #[case] pod: Pod,
    #[case] now: i64,
    #[case] stage: Option<Stage>,
) {
    let mut node = node(&healthy());
    node.spec.get_or_insert_default().unschedulable = Some(cordoned);
    let view = View {
        pods: Some(vec![pod]),
        ..with_node(in_stage(Stage::Vm), node)
    };
    let plan = decided(&view, minute(now));
    assert_eq!(plan.status.as_ref().and_then(Stage::of), stage);
    assert_eq!(plan.reason == Reason::DeleteVm, stage.is_none());
}

#[test]
fn the_driver_is_given_the_provider_id_of_the_vm_to_delete() {
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
fn a_class_that_is_missing_blocks_the_deletion_and_is_told(#[case] stage: Stage) {
    let view = View {
        class: None,
        ..in_stage(stage)
    };
    let plan = decided(&view, minute(1));
    let status = plan.status.unwrap();
    assert_eq!(Stage::of(&status), Some(stage), "the stage stays");
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
fn a_deletion_whose_vm_is_gone_needs_no_class() {
    let view = View {
        class: None,
        ..in_stage(Stage::Finalizer)
    };
    assert_eq!(actions(&decided(&view, minute(1))), ["remove finalizer"]);
}

#[test]
fn the_node_object_goes_after_the_vm() {
    let plan = decided(&in_stage(Stage::Node), minute(1));
    assert_eq!(actions(&plan), ["delete node", "remove node finalizer"]);
    assert_eq!(
        description(&plan),
        "Deletion of Node Object \"worker-x7k2p\" is successful. Initiate machine object finalizer removal"
    );
}

#[test]
fn a_node_object_that_is_on_its_way_out_only_loses_the_finalizer() {
    let mut node = node(&healthy());
    node.metadata.deletion_timestamp = Some(Time(start()));
    let plan = decided(&with_node(in_stage(Stage::Node), node), minute(1));
    assert_eq!(actions(&plan), ["remove node finalizer"]);
}

#[rstest]
#[case::absent(NodeView::Absent)]
#[case::gone(NodeView::Gone)]
fn a_node_object_that_is_not_there_needs_no_deletion(#[case] node: NodeView) {
    let plan = decided(
        &View {
            node,
            ..in_stage(Stage::Node)
        },
        minute(1),
    );
    assert_eq!(
        description(&plan),
        "No node object found for \"worker-x7k2p\", continuing deletion flow. Initiate machine object finalizer removal"
    );
}

#[test]
fn a_machine_without_node_label_goes_on() {
    let mut view = in_stage(Stage::Node);
    view.machine.metadata.labels = None;
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Label \"node\" not present on machine \"worker-x7k2p\", continuing deletion flow. Initiate machine object \
         finalizer removal"
    );
}

#[rstest]
#[case::delete(
    0,
    false,
    "Deletion of Node Object \"worker-x7k2p\" failed due to error: it broke. Initiate node object deletion"
)]
#[case::finalizer(
    1,
    false,
    "Removal of finalizers from Node Object \"worker-x7k2p\" failed due to error: it broke, Retrying. Initiate node object deletion"
)]
#[case::not_found(
    0,
    true,
    "No node object found for \"worker-x7k2p\", continuing deletion flow. Initiate machine object finalizer removal"
)]
fn a_node_object_that_cannot_be_deleted_is_told_in_the_status(
    #[case] action: usize,
    #[case] not_found: bool,
    #[case] text: &str,
) {
    let mut view = in_stage(Stage::Node);
    view.failure = failed(&decided(&view, minute(1)).actions[action], false, not_found);
    assert_eq!(description(&decided(&view, minute(1))), text);
}

#[test]
fn the_finalizer_goes_last() {
    let plan = decided(&in_stage(Stage::Finalizer), minute(1));
    assert_eq!((plan.reason, plan.status), (Reason::Released, None));
    let machine = in_stage(Stage::Finalizer).machine;
    assert_eq!(
        plan.actions[0].machine_patch(&machine).unwrap(),
        serde_json::json!({ "metadata": { "resourceVersion": "1", "finalizers": [] } })
    );
}

#[rstest]
#[case::no_node_used_it(false)]
#[case::its_node_never_let_the_machine_run(true)]
fn the_token_of_a_machine_that_never_ran_goes_with_it(#[case] registered: bool) {
    let mut view = in_stage(Stage::Finalizer);
    view.machine.metadata.annotations = None;
    if !registered {
        view.machine.status.conditions.clear();
    }
    assert_eq!(
        actions(&decided(&view, minute(1))),
        ["delete bootstrap-token-32m9ap", "remove finalizer"]
    );
}

#[test]
fn an_answer_without_a_node_name_still_leads_to_the_drain() {
    let nameless = VmIdentity {
        node_name: String::new(),
        ..vm()
    };
    let plan = decided(&answered(without_node(), Answer::Status(Ok(nameless))), minute(1));
    assert_eq!(
        (actions(&plan).len(), description(&plan).as_str()),
        (0, "Initiate node drain")
    );
}

#[rstest]
#[case::drain(Stage::Drain, Stage::Vm)]
#[case::volume_attachments(Stage::VolumeAttachments, Stage::Vm)]
#[case::node(Stage::Node, Stage::Finalizer)]
fn a_node_label_holds_no_deletion_up_where_there_is_no_target_cluster(#[case] stage: Stage, #[case] next: Stage) {
    let view = View {
        target: false,
        node: NodeView::Unknown,
        pods: None,
        ..in_stage(stage)
    };
    let plan = decided(&view, minute(1));
    assert_eq!(Stage::parse(&description(&plan)), Some(next), "{:?}", plan.reason);
}

#[test]
fn a_deletion_does_not_touch_the_node_of_another_machine() {
    for stage in [Stage::Drain, Stage::VolumeAttachments, Stage::Node] {
        let mut view = in_stage(stage);
        view.pods = Some(vec![pod("web-1")]);
        view.volume_attachments = vec!["csi-1".to_owned()];
        view.node_of_other = Some("worker-other".to_owned());
        let plan = decided(&view, minute(1));
        assert_eq!(actions(&plan), Vec::<String>::new(), "{stage:?}");
        assert!(plan.status.is_some(), "{stage:?}: the deletion goes on");
    }
}

#[test]
fn a_vm_that_was_made_meanwhile_is_recorded_also_after_the_deletion_itself_caused_a_conflict() {
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
        "a server that fails is not asked again at once"
    );
}

#[test]
fn the_drivers_memory_is_kept_although_the_same_error_comes_again() {
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
