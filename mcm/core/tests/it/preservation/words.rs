//! What a preservation says of itself: in the record, in the Node's condition, in the list; and whom it leaves alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, PreservationStage, PreservedBy, keys};
use mcm_core::machine::{Action, NodeView, Plan};
use mcm_core::preservation::Dialect;
use rstest::rstest;

use super::lab::{Lab, failing, kept, rolled, stuck};
use crate::fixtures::*;

fn told(lab: &Lab) -> NodeCondition {
    let node = lab.view.node.present().unwrap();
    let conditions = node.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let mut all = conditions.iter();
    all.find(|condition| condition.type_ == keys::PRESERVED_CONDITION)
        .unwrap()
        .clone()
}

fn record(lab: &Lab) -> mcm_api::Preservation {
    lab.machine().status.preservation.clone().unwrap()
}

/// Its disk is full, and a pod takes long to leave.
fn draining(ask: &str) -> Lab {
    let mut lab = stuck();
    if !ask.is_empty() {
        lab.ask(ask, "when-failed");
    }
    lab.settle();
    assert_eq!(record(&lab).stage, PreservationStage::Draining);
    lab
}

#[rstest]
#[case::nobody("", PreservedBy::Auto)]
#[case::the_machine("Machine", PreservedBy::Machine)]
#[case::the_node("Node", PreservedBy::Node)]
fn who_asked_is_recorded_from_the_first_write_on(#[case] ask: &str, #[case] by: PreservedBy) {
    assert_eq!(record(&draining(ask)).by, by);
}

#[test]
fn who_had_asked_stays_in_the_record_of_an_end() {
    let mut lab = kept();
    lab.now = lab.expiry().unwrap();
    lab.ask("Node", "now");
    lab.settle();
    assert_eq!(
        (record(&lab).by, record(&lab).reason.as_str()),
        (PreservedBy::Auto, "Expired")
    );
}

#[test]
fn the_word_that_asks_now_is_recorded() {
    let mut lab = failing();
    lab.ask("Machine", "when-failed");
    lab.settle();
    assert_eq!(record(&lab).request, "when-failed");
    lab.ask("Machine", "now");
    lab.settle();
    assert_eq!(
        (record(&lab).request.as_str(), lab.phase().as_str()),
        ("now", "Failed:Preserved")
    );
}

#[test]
fn that_a_rollout_ended_it_is_recorded() {
    assert_eq!(record(&rolled()).reason, "RollingOut");
}

#[test]
fn whose_time_is_over_when_it_fails_asks_no_list() {
    let mut lab = Lab::new(running());
    lab.ask("Machine", "now");
    lab.settle();
    lab.reports(unhealthy());
    lab.settle();
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(11)));
    lab.now = minute(11);
    let done = lab.settle();
    assert!(!done.iter().any(|word| word.starts_with("claim")), "{done:?}");
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[rstest]
#[case::with_a_vm(true, Some("claim auto"))]
#[case::without_one(false, None)]
fn what_another_controller_was_about_to_keep_asks_as_one_that_nobody_asked_for(
    #[case] vm: bool,
    #[case] claim: Option<&str>,
) {
    let mut lab = Lab::new(with_conditions(with_vm(Phase::Failed), &unhealthy()));
    if !vm {
        lab.view.machine.spec.provider_id.clear();
    }
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, Some("auto-preserved"));
    let done = lab.settle();
    let claimed = done.iter().map(String::as_str).find(|word| word.starts_with("claim"));
    assert_eq!(claimed, claim, "{done:?}");
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION), None);
}

#[test]
fn a_machine_without_a_node_has_no_pods_to_wait_for() {
    let mut view = with_vm(Phase::Pending);
    view.node = NodeView::Absent;
    let mut lab = Lab::new(view);
    lab.view.pods = None;
    lab.now = minute(21);
    lab.ask("Machine", "when-failed");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[test]
fn a_drain_that_is_forced_deletes_pods_and_waits_for_none() {
    let mut lab = draining("");
    let labels = lab.view.machine.metadata.labels.get_or_insert_default();
    labels.insert(keys::FORCE_DRAIN_LABEL.to_owned(), "False".to_owned());
    lab.settle();
    assert_eq!(lab.phase(), "Failed");
    let labels = lab.view.machine.metadata.labels.get_or_insert_default();
    labels.insert(keys::FORCE_DRAIN_LABEL.to_owned(), "True".to_owned());
    let deleted = lab
        .decide()
        .actions
        .iter()
        .any(|action| matches!(action, Action::DeletePod { .. }));
    assert!(deleted);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[rstest]
#[case::by_nobody("", "Preserved by MCM.")]
#[case::by_a_person("Node", "Preserved by user.")]
fn the_condition_says_who_and_until_when_and_that_the_pods_left(#[case] ask: &str, #[case] reason: &str) {
    let mut lab = failing();
    if !ask.is_empty() {
        lab.ask(ask, "when-failed");
    }
    lab.settle();
    let text = |lab: &Lab| {
        let until = lab.expiry().unwrap();
        format!("Preserved node drained successfully. Machine preserved until {until}.")
    };
    assert_eq!(told(&lab).reason.as_deref(), Some(reason));
    assert_eq!(told(&lab).message, Some(text(&lab)));
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(500)));
    lab.settle();
    assert_eq!(told(&lab).message, Some(text(&lab)), "until another moment");
    assert_eq!(lab.settle(), [""; 0], "once");
    if ask.is_empty() {
        lab.ask("Machine", "now");
        lab.settle();
        assert_eq!(told(&lab).reason.as_deref(), Some("Preserved by user."));
    }
    lab.now = minute(500);
    lab.settle();
    let told = told(&lab);
    assert_eq!(
        (told.status.as_str(), told.reason.as_deref(), told.message.as_deref()),
        ("False", Some("Preservation stopped."), Some(""))
    );
}

#[test]
fn a_node_that_was_never_told_of_a_preservation_is_not_told_of_its_end() {
    let mut lab = Lab::new(running());
    lab.refuses = |action| matches!(action, Action::SetPreservedCondition { .. } | Action::PatchNode { .. });
    lab.ask("Machine", "now");
    lab.settle();
    lab.refuses = |_| false;
    lab.ask("Machine", "false");
    let done = lab.settle();
    assert!(!done.iter().any(|word| word.contains("condition")), "{done:?}");
    assert_eq!(lab.machine().status.preservation, None);
}

#[test]
fn taints_of_others_stay() {
    let others = || {
        let mut stricter = taint(keys::PRESERVED_TAINT);
        stricter.effect = "NoExecute".to_owned();
        vec![taint("dedicated"), stricter]
    };
    let mut lab = failing();
    if let NodeView::Present(node) = &mut lab.view.node {
        node.spec.get_or_insert_default().taints = Some(others());
    }
    lab.settle();
    let taints = |lab: &Lab| lab.view.node.present().unwrap().spec.clone().unwrap().taints.unwrap();
    let mut expected = others();
    expected.push(taint(keys::PRESERVED_TAINT));
    assert_eq!(taints(&lab), expected);
    lab.reports(healthy());
    lab.settle();
    assert_eq!(taints(&lab), others());
}

#[rstest]
#[case::now("now", "Running", true)]
#[case::when_failed("when-failed", "Running", false)]
fn in_the_dialect_of_upstream_only_now_keeps_what_recovered(
    #[case] word: &str,
    #[case] phase: &str,
    #[case] stays: bool,
) {
    let mut lab = failing();
    lab.settings.preservation = Dialect::Upstream;
    lab.ask("Node", word);
    lab.settle();
    let until = lab.expiry();
    assert!(until.is_some());
    lab.now = minute(20);
    lab.reports(healthy());
    lab.settle();
    let left = until.filter(|_| stays);
    assert_eq!((lab.phase().as_str(), lab.expiry()), (phase, left));
    lab.now = minute(60);
    lab.settle();
    assert_eq!(lab.expiry(), left, "and no longer");
}

#[rstest]
#[case::the_node("Node")]
#[case::the_machine("Machine")]
fn pods_begin_to_leave_as_soon_as_it_is_written_that_the_machine_failed(#[case] asker: &str) {
    let mut lab = failing();
    lab.ask(asker, "when-failed");
    let writes = |plan: &Plan| plan.status.is_some();
    while !writes(&lab.decide()) {
        lab.carry_out(lab.decide());
    }
    assert_eq!(lab.decide().wake, Some(Duration::ZERO));
    lab.carry_out(lab.decide());
    assert_eq!(record(&lab).stage, PreservationStage::Draining);
}
