//! The VM and the Node that a new machine names: they count once the driver confirms them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Code, MachineName, NodeName, Phase, ProviderId, VmIdentity};
use mcm_core::machine::{Answer, NodeView, View};
use rstest::rstest;

use crate::fixtures::*;

const NOTHING: &[&str] = &[];

/// A new machine that names a VM and a Node whose label names no machine.
fn naming() -> View {
    let mut view = with_conditions(with_vm(Phase::CrashLoopBackOff), &healthy());
    view.machine.status.current_status.phase = None;
    view.machine.status.last_operation = None;
    view.machine.status.conditions.clear();
    view
}

/// The same, whose deletion has begun.
fn deleted() -> View {
    let mut view = naming();
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), NOTHING, "the Node gets no condition");
    view.machine.status = plan.status.unwrap();
    view
}

fn listed(owner: Option<&str>) -> Answer {
    let entry = |owner| (ProviderId::new(PROVIDER_ID).unwrap(), MachineName::new(owner).unwrap());
    Answer::List(Ok(owner.into_iter().map(entry).collect()))
}

fn status(code: Code) -> Answer {
    Answer::Status(Err(error(code)))
}

fn other_vm() -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new("fakecloud:///z2/other"),
        node_name: NodeName::new("other"),
        ..VmIdentity::default()
    }
}

#[rstest]
#[case::the_driver_is_asked(vec![], &["call Status"], "")]
#[case::its_own(vec![Answer::Status(Ok(vm()))], NOTHING, "Pending")]
#[case::of_another_node(
    vec![Answer::Status(Ok(VmIdentity { node_name: NodeName::new("other"), ..vm() }))],
    &["patch node=other"],
    "Pending"
)]
#[case::another_vm(vec![Answer::Status(Ok(other_vm()))], NOTHING, "CrashLoopBackOff")]
#[case::not_found(vec![status(Code::NotFound)], NOTHING, "CrashLoopBackOff")]
#[case::no_status_call(vec![status(Code::Unimplemented)], &["call List"], "")]
#[case::listed(vec![status(Code::Unimplemented), listed(Some(NAME))], NOTHING, "Pending")]
#[case::listed_for_another(vec![status(Code::Unimplemented), listed(Some("other"))], NOTHING, "CrashLoopBackOff")]
#[case::not_listed(vec![status(Code::Unimplemented), listed(None)], NOTHING, "CrashLoopBackOff")]
#[case::list_fails(
    vec![status(Code::Unimplemented), Answer::List(Err(error(Code::Unavailable)))],
    NOTHING,
    "CrashLoopBackOff"
)]
#[case::neither_call(
    vec![status(Code::Unimplemented), Answer::List(Err(error(Code::Unimplemented)))],
    NOTHING,
    "Pending"
)]
fn a_new_machine_waits_until_its_vm_is_confirmed(
    #[case] answers: Vec<Answer>,
    #[case] expected: &[&str],
    #[case] phase: &str,
) {
    let view = answers.into_iter().fold(naming(), answered);
    let plan = decided(&view, minute(1));
    assert_eq!(
        (actions(&plan).as_slice(), &*written(&plan).0),
        (owned(expected).as_slice(), phase)
    );
}

#[rstest]
#[case::not_found(Code::NotFound)]
#[case::unimplemented(Code::Unimplemented)]
fn a_vm_that_this_process_created_needs_no_confirmation(#[case] code: Code) {
    let mut view = naming();
    view.created_vm = Some(vm());
    view.node = NodeView::Absent;
    let plan = decided(&answered(view, status(code)), minute(1));
    assert_eq!((actions(&plan).len(), &*written(&plan).0), (0, "Pending"));
}

#[rstest]
#[case::the_driver_is_asked(vec![], &["call Status"], "")]
#[case::its_own(vec![Answer::Status(Ok(vm()))], NOTHING, "Initiate node drain")]
#[case::another_vm(
    vec![Answer::Status(Ok(other_vm()))],
    &["patch forget node=other provider=fakecloud:///z2/other"],
    "Initiate node drain"
)]
#[case::a_vm_without_a_node(
    vec![Answer::Status(Ok(VmIdentity { node_name: None, ..vm() }))],
    &["patch forget provider=fakecloud:///z1/worker-x7k2p"],
    "Initiate node drain"
)]
#[case::not_found_keeps_the_id(vec![status(Code::NotFound)], &["patch forget node"], "Initiate node drain")]
#[case::unavailable(vec![status(Code::Unavailable)], NOTHING, "It is asked again. ")]
#[case::refused(vec![status(Code::PermissionDenied)], NOTHING, "could not confirm the VM of the machine: ")]
#[case::no_status_call(vec![status(Code::Unimplemented)], &["call List"], "")]
#[case::listed(vec![status(Code::Unimplemented), listed(Some(NAME))], NOTHING, "Initiate node drain")]
#[case::listed_for_another(
    vec![status(Code::Unimplemented), listed(Some("other"))],
    &["patch forget"],
    "Initiate node drain"
)]
#[case::neither_call(
    vec![status(Code::Unimplemented), Answer::List(Err(error(Code::Unimplemented)))],
    NOTHING,
    "Initiate node drain"
)]
fn the_deletion_leaves_an_unconfirmed_node_alone(
    #[case] answers: Vec<Answer>,
    #[case] expected: &[&str],
    #[case] description: &str,
) {
    let view = answers.into_iter().fold(deleted(), answered);
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), owned(expected));
    assert!(written(&plan).3.contains(description), "{:?}", written(&plan));
}

#[test]
fn a_failed_question_is_repeated_before_the_node_counts() {
    let mut view = deleted();
    view.machine.status = decided(&answered(view.clone(), status(Code::Unavailable)), minute(1))
        .status
        .unwrap();
    assert_eq!(actions(&decided(&view, minute(1))), NOTHING, "it waits");
    assert_eq!(actions(&decided(&view, minute(2))), ["call Status"]);
}

#[test]
fn a_node_that_names_the_machine_confirms_it() {
    let mut view = naming();
    view.labelled_node = NodeName::new(NAME);
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    view.machine.status = decided(&view, minute(1)).status.unwrap();
    assert!(written(&decided(&view, minute(1))).3.contains("Initiate node drain"));
}

#[test]
fn the_deletion_of_a_confirmed_machine_does_not_ask() {
    let mut view = deleting("Set machine status to termination. Now, getting VM Status");
    view.node = NodeView::Absent;
    assert_eq!(actions(&decided(&view, minute(1))), NOTHING);
}

#[test]
fn the_error_names_the_field_and_the_fix() {
    let reported = |answer| written(&decided(&answered(naming(), answer), minute(1))).3;
    let missing = reported(status(Code::NotFound));
    assert!(
        missing.contains("spec.providerID is") && missing.contains("remove spec.providerID"),
        "{missing}"
    );
    let other = reported(Answer::Status(Ok(other_vm())));
    assert!(
        other.contains("the driver reports the VM \"fakecloud:///z2/other\""),
        "{other}"
    );
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}
