//! Preservation beside what a machine's plan does anyway: it comes last, and changes nothing of what comes first.

use std::time::Duration;

use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Operation, Phase, State, keys};
use mcm_core::machine::{Action, NodeView, Plan, Stage, View};
use rstest::rstest;
use serde_json::json;

use super::lab::{CA, Lab, kept};
use crate::fixtures::*;

/// The machine waits for a pod that ends.
fn drained_away() -> View {
    let mut conditions = healthy();
    conditions.push(condition("Terminating", "True"));
    let mut view = with_conditions(deleting(Stage::Drain.phrase()), &conditions);
    if let NodeView::Present(node) = &mut view.node {
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    let mut ending = pod("web");
    ending.ends = Some(minute(3));
    view.pods = Some(vec![ending]);
    view
}

/// Its Node's annotation asks that it be deleted.
fn ordered_away() -> View {
    let mut view = running();
    annotate_node(&mut view, keys::TRIGGER_DELETION_ANNOTATION, "true");
    view
}

fn annotate_node(view: &mut View, key: &str, value: &str) {
    if let NodeView::Present(node) = &mut view.node {
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }
}

fn annotate(view: &mut View, key: &str, value: &str) {
    let annotations = view.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
}

/// What it asks the cloud for comes first.
fn asking() -> View {
    let view = new_machine();
    let plan = decided(&view, minute(1));
    assert!(matches!(plan.actions.last(), Some(Action::Call(_))), "{plan:?}");
    view
}

/// What is done, whether a status is written, and when the machine is looked at again.
fn done(view: &View) -> (Vec<String>, bool, Option<Duration>) {
    let plan = decided(view, minute(1));
    (actions(&plan), plan.status.is_some(), plan.wake)
}

#[rstest]
#[case::it_goes_and_waits(drained_away())]
#[case::it_is_ordered_away(ordered_away())]
#[case::it_asks(asking())]
fn what_comes_first_is_as_if_nobody_asked(#[case] view: View) {
    let plain = done(&view);
    let mut asked = view.clone();
    annotate(&mut asked, keys::PRESERVE_ANNOTATION, "now");
    assert_eq!(done(&asked), plain);
    let mut by_node = view;
    annotate_node(&mut by_node, keys::PRESERVE_ANNOTATION, "now");
    assert_eq!(done(&by_node), plain);
}

#[rstest]
#[case::it_is_ordered_away(ordered_away())]
#[case::it_asks(asking())]
fn an_expiry_wakes_nobody_who_has_something_else_to_do(#[case] view: View) {
    let plain = done(&view);
    let mut kept = view;
    kept.machine.status.current_status.preserve_expiry_time = Some(Time(minute(1).checked_add(secs(1)).unwrap()));
    assert_eq!(done(&kept), plain);
}

fn tells(plan: &Plan, word: &str) -> bool {
    let told = |action: &Action| matches!(action, Action::RecordEvent { reason, .. } if reason == word);
    plan.actions.iter().any(told)
}

#[test]
fn that_a_failed_machine_recovered_is_told() {
    let mut lab = kept();
    lab.reports(healthy());
    lab.now = minute(60);
    assert!(tells(&lab.decide(), "PreservedMachineRecovered"));
}

#[test]
fn a_machine_that_was_unknown_and_did_not_fail_keeps_its_record_as_it_is() {
    let mut lab = Lab::new(running());
    lab.ask("Machine", "now");
    lab.settle();
    let record = lab.machine().status.preservation.clone();
    lab.now = minute(5);
    lab.reports(unhealthy());
    lab.settle();
    assert_eq!(lab.machine().status.current_status.phase, Some(Phase::Unknown));
    lab.now = minute(6);
    lab.reports(healthy());
    let plan = lab.decide();
    assert_eq!(written(&plan).0, "Running:Preserved");
    assert!(!tells(&plan, "PreservedMachineRecovered"));
    lab.settle();
    assert_eq!(lab.machine().status.preservation, record);
}

#[test]
fn a_request_that_cannot_be_understood_leaves_the_record_of_the_one_before() {
    let mut lab = Lab::new(running());
    lab.ask("Machine", "now");
    lab.settle();
    lab.ask("Machine", "perhaps");
    lab.settle();
    let record = lab.machine().status.preservation.clone().unwrap();
    assert_eq!(
        (lab.phase().as_str(), record.request.as_str()),
        ("Running:Preserved", "now")
    );
}

#[test]
fn an_expiry_is_a_whole_second_and_not_too_early() {
    let mut lab = Lab::new(running());
    lab.now = minute(1).checked_add(jiff::SignedDuration::from_millis(1)).unwrap();
    lab.ask("Machine", "now");
    lab.settle();
    let later = minute(1).checked_add(secs(1 + 72 * 60 * 60)).unwrap();
    assert_eq!(lab.expiry(), Some(later));
}

#[test]
fn the_nodes_condition_says_until_when() {
    let lab = kept();
    let node = lab.view.node.present().unwrap();
    let conditions = node.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let told = conditions
        .iter()
        .find(|condition| condition.type_ == keys::PRESERVED_CONDITION);
    let text = format!("Machine preserved until {}.", lab.expiry().unwrap());
    let said = told.and_then(|condition| condition.message.as_deref()).unwrap();
    assert!(said.ends_with(&text), "{said}");
}

/// What is done before the driver is asked to update the VM.
fn before_the_call(lab: &mut Lab) -> Plan {
    for _ in 0..10 {
        let plan = lab.decide();
        if matches!(plan.actions.last(), Some(Action::Call(_))) {
            return plan;
        }
        lab.carry_out(plan);
    }
    panic!("the driver is not asked: {:?}", lab.decide());
}

/// The machine's turn may come long after.
#[test]
fn a_preservation_begins_and_ends_while_the_driver_is_to_update_the_vm() {
    let mut view = running();
    view.class.as_mut().unwrap().provider_spec = json!({ "tags": { "a": "1" } });
    let mut lab = Lab::new(view);
    assert_eq!(actions(&before_the_call(&mut lab)), ["call Update"]);

    lab.ask("Machine", "now");
    let call = before_the_call(&mut lab);
    assert_eq!(lab.phase(), "Running:Preserved");
    assert_eq!(lab.node(CA).as_deref(), Some("true"));
    let ends = lab.expiry().unwrap();
    assert_eq!(call.expiry, Duration::try_from(ends.duration_since(lab.now)).ok());

    lab.now = ends;
    let call = before_the_call(&mut lab);
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!((lab.node(CA), call.expiry), (None, None));
}

#[test]
fn the_driver_is_asked_to_update_a_vm_whose_node_cannot_be_told_of_the_preservation() {
    let mut view = running();
    view.class.as_mut().unwrap().provider_spec = json!({ "tags": { "a": "1" } });
    let mut lab = Lab::new(view);
    lab.refuses = |action| matches!(action, Action::SetPreservedCondition { .. });
    lab.ask("Machine", "now");
    assert_eq!(actions(&before_the_call(&mut lab)), ["call Update"]);
    assert_eq!(lab.phase(), "Running:Preserved");
}

/// It waits for others to be ready on its Node, and they are not.
#[test]
fn a_machine_that_never_ran_does_not_run_because_it_is_kept() {
    let mut view = with_conditions(with_vm(Phase::Pending), &healthy());
    if let NodeView::Present(node) = &mut view.node {
        node.spec.get_or_insert_default().taints = Some(vec![Taint {
            key: keys::CRITICAL_COMPONENTS_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        }]);
    }
    let mut lab = Lab::new(view);
    set_operation(&mut lab.view, Operation::Create, State::Processing, "Creating");
    lab.now = minute(21);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    let mut ended = lab.clone();
    ended.ask("Machine", "false");
    ended.settle();
    assert_eq!(
        (ended.phase().as_str(), ended.expiry()),
        ("Failed", None),
        "it is replaced"
    );
    if let NodeView::Present(node) = &mut lab.view.node {
        node.spec.get_or_insert_default().taints = None;
    }
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
}

/// A person chose all nodes for the update, that of a failed machine among them.
#[rstest]
#[case::chosen("SelectedForUpdate")]
#[case::drained("DrainSuccessful")]
fn a_failed_machine_that_is_kept_is_not_updated_in_place(#[case] reason: &str) {
    let mut lab = kept();
    let chosen = NodeCondition {
        reason: Some(reason.to_owned()),
        ..condition(keys::IN_PLACE_UPDATE_CONDITION, "True")
    };
    let mut all = lab.machine().status.conditions.clone();
    all.push(chosen);
    lab.conditions(&all);
    if let NodeView::Present(node) = &mut lab.view.node {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(keys::CANDIDATE_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
        labels.insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
    }
    assert_eq!(lab.settle(), Vec::<String>::new());
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert!(lab.is_tainted() && lab.is_entered());
}
