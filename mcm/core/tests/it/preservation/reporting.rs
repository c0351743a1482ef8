//! How a preservation is reported: in the record, the Node's condition and the owner's list; and what it does not
//! change.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, PreservationStage, PreservedBy, keys};
use mcm_core::event::EventType;
use mcm_core::machine::{Action, Claimed, Metric, NodeView, Plan};
use mcm_core::preservation::{Admission, Dialect, ListView, Refusal, Release};
use rstest::rstest;

use super::lab::{Lab, failing, kept, rolled, stuck};
use crate::fixtures::*;

fn preserved_condition(lab: &Lab) -> NodeCondition {
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

/// A machine that drains: its node has a full disk and a slowly terminating pod.
fn draining(kind: &str) -> Lab {
    let mut lab = stuck();
    if !kind.is_empty() {
        lab.request(kind, "when-failed");
    }
    lab.settle();
    assert_eq!(record(&lab).stage, PreservationStage::Draining);
    lab
}

#[rstest]
#[case::automatic("", PreservedBy::Auto)]
#[case::the_machine("Machine", PreservedBy::Machine)]
#[case::the_node("Node", PreservedBy::Node)]
fn the_requester_is_recorded_in_the_first_write(#[case] kind: &str, #[case] by: PreservedBy) {
    assert_eq!(record(&draining(kind)).by, by);
}

#[test]
fn the_record_of_an_ended_preservation_keeps_its_requester() {
    let mut lab = kept();
    lab.now = lab.expiry().unwrap();
    lab.request("Node", "now");
    lab.settle();
    assert_eq!(
        (record(&lab).by, record(&lab).reason.as_str()),
        (PreservedBy::Auto, "Expired")
    );
}

#[test]
fn the_current_request_value_is_recorded() {
    let mut lab = failing();
    lab.request("Machine", "when-failed");
    lab.settle();
    assert_eq!(record(&lab).request, "when-failed");
    lab.request("Machine", "now");
    lab.settle();
    assert_eq!(
        (record(&lab).request.as_str(), lab.phase().as_str()),
        ("now", "Failed:Preserved")
    );
}

#[test]
fn the_record_states_that_a_rollout_ended_the_preservation() {
    assert_eq!(record(&rolled()).reason, "RollingOut");
}

#[test]
fn an_expired_machine_that_fails_claims_no_entry() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    lab.reports(unhealthy());
    lab.settle();
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(11)));
    lab.now = minute(11);
    let done = lab.settle();
    assert!(!done.iter().any(|text| text.starts_with("claim")), "{done:?}");
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[rstest]
#[case::with_a_vm(true, Some("claim auto"))]
#[case::without_a_vm(false, None)]
fn a_machine_marked_by_another_controller_claims_an_automatic_entry(#[case] vm: bool, #[case] claim: Option<&str>) {
    let mut lab = Lab::new(with_conditions(with_vm(Phase::Failed), &unhealthy()));
    if !vm {
        lab.view.machine.spec.provider_id.clear();
    }
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, Some("auto-preserved"));
    let done = lab.settle();
    let claimed = done.iter().map(String::as_str).find(|text| text.starts_with("claim"));
    assert_eq!(claimed, claim, "{done:?}");
    assert_eq!(lab.machine_annotation(keys::PRESERVE_ANNOTATION), None);
}

#[test]
fn a_machine_without_a_node_does_not_wait_for_pods() {
    let mut view = with_vm(Phase::Pending);
    view.node = NodeView::Absent;
    let mut lab = Lab::new(view);
    lab.view.pods = None;
    lab.now = minute(21);
    lab.request("Machine", "when-failed");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[test]
fn a_forced_drain_of_a_preservation_deletes_pods_and_does_not_wait() {
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
#[case::automatic("", "Preserved by MCM.")]
#[case::by_a_user("Node", "Preserved by user.")]
fn the_condition_contains_requester_expiry_and_drain_result(#[case] kind: &str, #[case] reason: &str) {
    let mut lab = failing();
    if !kind.is_empty() {
        lab.request(kind, "when-failed");
    }
    lab.settle();
    let text = |lab: &Lab| {
        let until = lab.expiry().unwrap();
        format!("Preserved node drained successfully. Machine preserved until {until}.")
    };
    assert_eq!(preserved_condition(&lab).reason.as_deref(), Some(reason));
    assert_eq!(preserved_condition(&lab).message, Some(text(&lab)));
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(500)));
    lab.settle();
    assert_eq!(
        preserved_condition(&lab).message,
        Some(text(&lab)),
        "the condition contains the new expiry"
    );
    assert_eq!(lab.settle(), [""; 0], "the condition is written once");
    if kind.is_empty() {
        lab.request("Machine", "now");
        lab.settle();
        assert_eq!(preserved_condition(&lab).reason.as_deref(), Some("Preserved by user."));
    }
    lab.now = minute(500);
    lab.settle();
    let condition = preserved_condition(&lab);
    assert_eq!(
        (
            condition.status.as_str(),
            condition.reason.as_deref(),
            condition.message.as_deref()
        ),
        (
            "False",
            Some("Preservation stopped."),
            Some("The preservation ended: Expired.")
        )
    );
}

/// The plan of a failing machine after its owner's list refused the claim; `request`: the value of its annotation.
fn refused(admission: Admission, request: Option<&str>, maximum: usize) -> Plan {
    let mut lab = failing();
    if let Some(value) = request {
        lab.request("Machine", value);
    }
    if let ListView::Known { maximum: known, .. } = &mut lab.view.owners_list {
        *known = maximum;
    }
    lab.view.claim = Some(Claimed {
        again: request.is_some(),
        answer: Err(admission),
    });
    lab.decide()
}

#[rstest]
#[case::asked_in_a_rollout(Admission::RollingOut, Some("when-failed"), 0, Some((Refusal::RollingOut, EventType::Warning)))]
#[case::now_in_a_rollout(Admission::RollingOut, Some("now"), 1, Some((Refusal::RollingOut, EventType::Warning)))]
#[case::automatic_in_a_rollout(Admission::RollingOut, None, 1, Some((Refusal::RollingOut, EventType::Normal)))]
#[case::not_automatic_in_a_rollout(Admission::RollingOut, None, 0, None)]
#[case::full(Admission::Full, None, 1, Some((Refusal::MaximumReached, EventType::Normal)))]
#[case::no_automatic_preservation(Admission::Full, None, 0, None)]
#[case::released_by_the_user(Admission::Full, Some("false"), 1, None)]
#[case::without_a_list(Admission::NoList, None, 1, None)]
fn a_request_that_is_not_honoured_is_explained(
    #[case] admission: Admission,
    #[case] request: Option<&str>,
    #[case] maximum: usize,
    #[case] expected: Option<(Refusal, EventType)>,
) {
    let plan = refused(admission, request, maximum);
    assert_eq!(written(&plan).0, "Failed");
    let event = plan.actions.iter().find_map(|action| match action {
        Action::RecordEvent { type_, reason, message } if reason == "PreservationRefused" => Some((*type_, message)),
        _ => None,
    });
    let counted = plan.actions.iter().find_map(|action| match action {
        Action::Observe(Metric::PreservationRefused(why)) => Some(*why),
        _ => None,
    });
    assert_eq!(counted, expected.map(|(why, _)| why));
    assert_eq!(event.map(|(type_, _)| type_), expected.map(|(_, type_)| type_));
    let text = expected.map(|(why, _)| format!("It is not preserved: {why}."));
    assert!(
        text.iter()
            .all(|text| event.is_some_and(|(_, message)| message.ends_with(text)))
    );
    let reason = plan.actions.iter().find_map(|action| match action {
        Action::SetPreservedCondition {
            status: false, reason, ..
        } => Some(reason.as_str()),
        _ => None,
    });
    let expected_reason = expected.map(|(why, _)| match why {
        Refusal::RollingOut => "Preservation refused: rollout in progress.",
        Refusal::MaximumReached => "Preservation refused: maximum reached.",
    });
    assert_eq!(reason, expected_reason);
    // A user who asked sees the reason in the machine's status as well.
    let description = plan.status.unwrap().last_operation.unwrap().description;
    let shown = expected.is_some_and(|(_, type_)| type_ == EventType::Warning);
    assert_eq!(description.contains("It is not preserved: "), shown, "{description}");
}

/// Performs plans, and returns the measurements of preservation in them.
fn counted(lab: &mut Lab) -> Vec<Metric> {
    let mut counted = Vec::new();
    for _ in 0..40 {
        let plan = lab.decide();
        counted.extend(plan.actions.iter().filter_map(|action| match action {
            Action::Observe(metric @ (Metric::PreservationStarted(_) | Metric::PreservationEnded(_))) => {
                Some(metric.clone())
            }
            _ => None,
        }));
        lab.carry_out(plan);
    }
    counted
}

#[test]
fn the_start_and_the_end_of_a_preservation_are_counted_once() {
    let mut lab = failing();
    lab.request("Machine", "when-failed");
    let started = Metric::PreservationStarted(PreservedBy::Machine);
    assert_eq!(counted(&mut lab), [started]);
    lab.now = lab.expiry().unwrap();
    assert_eq!(counted(&mut lab), [Metric::PreservationEnded(Release::Expired)]);
}

#[test]
fn the_deletion_of_a_machine_ends_its_preservation_once() {
    let mut lab = kept();
    lab.view.machine.metadata.deletion_timestamp = Some(Time(lab.now));
    assert_eq!(counted(&mut lab), [Metric::PreservationEnded(Release::Deleted)]);
    let mut other = failing();
    other.view.machine.metadata.deletion_timestamp = Some(Time(other.now));
    assert_eq!(counted(&mut other), []);
}

#[test]
fn the_end_is_not_written_to_a_node_without_the_preserved_condition() {
    let mut lab = Lab::new(running());
    lab.refuses = |action| matches!(action, Action::SetPreservedCondition { .. } | Action::PatchNode { .. });
    lab.request("Machine", "now");
    lab.settle();
    lab.refuses = |_| false;
    lab.request("Machine", "false");
    let done = lab.settle();
    assert!(!done.iter().any(|text| text.contains("condition")), "{done:?}");
    assert_eq!(lab.machine().status.preservation, None);
}

#[test]
fn foreign_taints_are_kept() {
    let others = || {
        let mut stricter = taint(keys::PRESERVED_TAINT);
        stricter.effect = "NoExecute".to_owned();
        vec![taint("dedicated"), stricter]
    };
    let mut lab = failing();
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
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
fn in_the_upstream_dialect_only_now_outlives_a_recovery(#[case] value: &str, #[case] phase: &str, #[case] stays: bool) {
    let mut lab = failing();
    lab.settings.preservation = Dialect::Upstream;
    lab.request("Node", value);
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
    assert_eq!(lab.expiry(), left, "the preservation stays or ends for good");
}

#[rstest]
#[case::the_node("Node")]
#[case::the_machine("Machine")]
fn the_drain_starts_right_after_the_failed_phase_is_written(#[case] kind: &str) {
    let mut lab = failing();
    lab.request(kind, "when-failed");
    let writes = |plan: &Plan| plan.status.is_some();
    while !writes(&lab.decide()) {
        lab.carry_out(lab.decide());
    }
    assert_eq!(lab.decide().wake, Some(Duration::ZERO));
    lab.carry_out(lab.decide());
    assert_eq!(record(&lab).stage, PreservationStage::Draining);
}

/// A Node that refuses the explanation does not delay the replacement.
#[test]
fn a_machine_fails_although_the_refusal_cannot_be_written_to_its_node() {
    let mut lab = failing();
    lab.request("Machine", "when-failed");
    lab.answer = Err(Admission::RollingOut);
    lab.refuses = |action| matches!(action, Action::SetPreservedCondition { .. });
    let done = lab.settle();
    assert_eq!(lab.phase(), "Failed", "{done:?}");
}

#[test]
fn a_release_during_the_drain_is_explained() {
    let mut lab = draining("Machine");
    lab.request("Machine", "false");
    let plan = lab.decide();
    let reported = plan.actions.iter().any(|action| {
        matches!(action, Action::RecordEvent { message, .. }
            if message.ends_with("ends while its node is drained: the annotation is false"))
    });
    assert!(reported, "{plan:?}");
    let done = lab.settle();
    let condition = preserved_condition(&lab);
    assert_eq!(condition.status, "False");
    let reason = "Preservation stopped while the node was drained.";
    assert_eq!(condition.reason.as_deref(), Some(reason));
    assert_eq!(condition.message.as_deref(), Some("The preservation ended: Refused."));
    let written = done.iter().filter(|text| text.starts_with("preserved condition"));
    assert_eq!(written.count(), 1, "{done:?}");
}
