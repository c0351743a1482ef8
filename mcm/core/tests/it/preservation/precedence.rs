//! Precedence of preservation in a machine's plan: it comes last and does not change the actions before it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Operation, Phase, State, keys};
use mcm_core::machine::{Action, NodeView, Plan, Stage, View};
use rstest::rstest;
use serde_json::json;

use super::lab::{Lab, SCALE_DOWN_DISABLED, kept};
use crate::fixtures::*;

/// A machine being deleted whose drain waits for a terminating pod.
fn draining_for_deletion() -> View {
    let mut conditions = healthy();
    conditions.push(condition("Terminating", "True"));
    let mut view = with_conditions(deleting(Stage::Drain.phrase()), &conditions);
    if let NodeView::Present(node) = &mut view.node {
        let node = Arc::make_mut(node);
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    let mut ending = pod("web");
    ending.ends = Some(minute(3));
    view.pods = Some(vec![ending]);
    view
}

/// A machine whose deletion is triggered by an annotation of its Node.
fn deletion_triggered() -> View {
    let mut view = running();
    annotate_node(&mut view, keys::TRIGGER_DELETION_ANNOTATION, "true");
    view
}

fn annotate_node(view: &mut View, key: &str, value: &str) {
    if let NodeView::Present(node) = &mut view.node {
        let node = Arc::make_mut(node);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }
}

fn annotate(view: &mut View, key: &str, value: &str) {
    let annotations = view.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
}

/// A machine with a cloud call as its next action.
fn calling_the_cloud() -> View {
    let view = new_machine();
    let plan = decided(&view, minute(1));
    assert!(matches!(plan.actions.last(), Some(Action::Call(_))), "{plan:?}");
    view
}

/// The actions of the plan, whether it writes a status, and its wake-up time.
fn outcome(view: &View) -> (Vec<String>, bool, Option<Duration>) {
    let plan = decided(view, minute(1));
    (actions(&plan), plan.status.is_some(), plan.wake)
}

#[rstest]
#[case::draining_for_deletion(draining_for_deletion())]
#[case::deletion_triggered(deletion_triggered())]
#[case::calling_the_cloud(calling_the_cloud())]
fn a_request_does_not_change_actions_that_take_precedence(#[case] view: View) {
    let plain = outcome(&view);
    let mut by_machine = view.clone();
    annotate(&mut by_machine, keys::PRESERVE_ANNOTATION, "now");
    assert_eq!(outcome(&by_machine), plain);
    let mut by_node = view;
    annotate_node(&mut by_node, keys::PRESERVE_ANNOTATION, "now");
    assert_eq!(outcome(&by_node), plain);
}

#[rstest]
#[case::deletion_triggered(deletion_triggered())]
#[case::calling_the_cloud(calling_the_cloud())]
fn an_expiry_does_not_change_the_wake_up_of_other_actions(#[case] view: View) {
    let plain = outcome(&view);
    let mut kept = view;
    kept.machine.status.current_status.preserve_expiry_time = Some(Time(minute(1).checked_add(secs(1)).unwrap()));
    assert_eq!(outcome(&kept), plain);
}

fn records_event(plan: &Plan, expected: &str) -> bool {
    let matching = |action: &Action| matches!(action, Action::RecordEvent { reason, .. } if reason == expected);
    plan.actions.iter().any(matching)
}

#[test]
fn the_recovery_of_a_failed_machine_is_reported_by_an_event() {
    let mut lab = kept();
    lab.reports(healthy());
    lab.now = minute(60);
    assert!(records_event(&lab.decide(), "PreservedMachineRecovered"));
}

#[test]
fn an_unknown_machine_that_recovers_keeps_its_preservation_record() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
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
    assert!(!records_event(&plan, "PreservedMachineRecovered"));
    lab.settle();
    assert_eq!(lab.machine().status.preservation, record);
}

#[test]
fn an_invalid_request_keeps_the_record_of_the_previous_request() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    lab.request("Machine", "perhaps");
    lab.settle();
    let record = lab.machine().status.preservation.clone().unwrap();
    assert_eq!(
        (lab.phase().as_str(), record.request.as_str()),
        ("Running:Preserved", "now")
    );
}

#[test]
fn an_expiry_is_rounded_up_to_a_whole_second() {
    let mut lab = Lab::new(running());
    lab.now = minute(1).checked_add(jiff::SignedDuration::from_millis(1)).unwrap();
    lab.request("Machine", "now");
    lab.settle();
    let later = minute(1).checked_add(secs(1 + 72 * 60 * 60)).unwrap();
    assert_eq!(lab.expiry(), Some(later));
}

#[test]
fn the_node_condition_contains_the_expiry() {
    let lab = kept();
    let node = lab.view.node.present().unwrap();
    let conditions = node.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let preserved = conditions
        .iter()
        .find(|condition| condition.type_ == keys::PRESERVED_CONDITION);
    let text = format!("Machine preserved until {}.", lab.expiry().unwrap());
    let message = preserved.and_then(|condition| condition.message.as_deref()).unwrap();
    assert!(message.ends_with(&text), "{message}");
}

/// Performs plans until the next one ends with a cloud call; returns that plan.
fn settle_until_call(lab: &mut Lab) -> Plan {
    for _ in 0..10 {
        let plan = lab.decide();
        if matches!(plan.actions.last(), Some(Action::Call(_))) {
            return plan;
        }
        lab.carry_out(plan);
    }
    panic!("the driver is not called: {:?}", lab.decide());
}

/// The update call may stay due for a long time.
#[test]
fn a_preservation_starts_and_ends_while_an_update_call_is_due() {
    let mut view = running();
    class_mut(&mut view).provider_spec = json!({ "tags": { "a": "1" } });
    let mut lab = Lab::new(view);
    assert_eq!(actions(&settle_until_call(&mut lab)), ["call Update"]);

    lab.request("Machine", "now");
    let call = settle_until_call(&mut lab);
    assert_eq!(lab.phase(), "Running:Preserved");
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
    let ends = lab.expiry().unwrap();
    assert_eq!(call.expiry, Duration::try_from(ends.duration_since(lab.now)).ok());

    lab.now = ends;
    let call = settle_until_call(&mut lab);
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!((lab.node_annotation(SCALE_DOWN_DISABLED), call.expiry), (None, None));
}

#[test]
fn a_vm_is_updated_although_the_preserved_condition_cannot_be_written() {
    let mut view = running();
    class_mut(&mut view).provider_spec = json!({ "tags": { "a": "1" } });
    let mut lab = Lab::new(view);
    lab.refuses = |action| matches!(action, Action::SetPreservedCondition { .. });
    lab.request("Machine", "now");
    assert_eq!(actions(&settle_until_call(&mut lab)), ["call Update"]);
    assert_eq!(lab.phase(), "Running:Preserved");
}

/// The machine waits for the critical components of its Node.
#[test]
fn a_preserved_machine_that_never_ran_stays_failed_until_its_node_is_ready() {
    let mut view = with_conditions(with_vm(Phase::Pending), &healthy());
    if let NodeView::Present(node) = &mut view.node {
        let node = Arc::make_mut(node);
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
    ended.request("Machine", "false");
    ended.settle();
    assert_eq!(
        (ended.phase().as_str(), ended.expiry()),
        ("Failed", None),
        "the machine is replaced"
    );
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        node.spec.get_or_insert_default().taints = None;
    }
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
}

/// A user selects all nodes for the update, including the node of a failed machine.
#[rstest]
#[case::selected("SelectedForUpdate")]
#[case::drained("DrainSuccessful")]
fn a_preserved_failed_machine_is_not_updated_in_place(#[case] reason: &str) {
    let mut lab = kept();
    let update = NodeCondition {
        reason: Some(reason.to_owned()),
        ..condition(keys::IN_PLACE_UPDATE_CONDITION, "True")
    };
    let mut all = lab.machine().status.conditions.clone();
    all.push(update);
    lab.conditions(&all);
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(keys::CANDIDATE_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
        labels.insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
    }
    assert_eq!(lab.settle(), Vec::<String>::new());
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert!(lab.is_tainted() && lab.is_entered());
}
