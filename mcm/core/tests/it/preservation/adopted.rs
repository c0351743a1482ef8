//! Preservations that another controller or dialect started: there is an expiry, and no record of its origin.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, PreservationStage, PreservedBy, keys};
use mcm_core::preservation::ListView;
use rstest::rstest;

use super::lab::{Lab, SCALE_DOWN_DISABLED};
use crate::fixtures::*;

/// Preserved until minute 100 by another controller, without a record.
fn adopted(phase: Phase) -> Lab {
    let conditions = if phase == Phase::Failed { unhealthy() } else { healthy() };
    let mut lab = Lab::new(with_conditions(with_vm(phase), &conditions));
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(100)));
    lab
}

#[rstest]
#[case::upstream_mark("Machine", "auto-preserved", PreservedBy::Auto)]
#[case::the_machines_request("Machine", "when-failed", PreservedBy::Machine)]
#[case::the_nodes_request("Node", "when-failed", PreservedBy::Node)]
fn an_adopted_failed_machine_is_drained_and_preserved_until_its_expiry(
    #[case] kind: &str,
    #[case] value: &str,
    #[case] by: PreservedBy,
) {
    let mut lab = adopted(Phase::Failed);
    lab.request(kind, value);
    let done = lab.settle();
    assert!(done.contains(&"[Failed Draining]".to_owned()), "{done:?}");
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Failed:Preserved", Some(minute(100)))
    );
    assert_eq!(lab.machine().status.preservation.as_ref().unwrap().by, by);
    assert!(matches!(&lab.view.owners_list, ListView::Known { entry: Some(entry), .. } if entry.by == by));
}

#[rstest]
#[case::the_machines_request("Machine", PreservedBy::Machine)]
#[case::the_nodes_request("Node", PreservedBy::Node)]
fn an_adopted_running_machine_is_preserved_until_its_expiry(#[case] kind: &str, #[case] by: PreservedBy) {
    let mut lab = adopted(Phase::Running);
    lab.request(kind, "now");
    let done = lab.settle();
    assert!(!done.iter().any(|text| text.contains("Draining")), "{done:?}");
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Running:Preserved", Some(minute(100))),
        "{done:?}"
    );
    let record = lab.machine().status.preservation.clone().unwrap();
    assert_eq!((record.by, record.stage), (by, PreservationStage::Preserved));
}

#[test]
fn an_adopted_expiry_without_a_request_ends() {
    let mut lab = adopted(Phase::Running);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!(lab.machine_annotation(keys::PRESERVE_ANNOTATION), None);
}

#[rstest]
#[case::of_a_set_alone(false, true, None)]
#[case::of_a_set_alone_and_ended_at_once(false, false, None)]
#[case::of_a_rollout(true, true, Some("true"))]
fn scale_down_annotations_are_removed_after_a_preservation_unless_a_rollout_needs_them(
    #[case] deployed: bool,
    #[case] kept: bool,
    #[case] left: Option<&str>,
) {
    let mut lab = adopted(Phase::Running);
    if let ListView::Known { deployed: current, .. } = &mut lab.view.owners_list {
        *current = deployed;
    }
    lab.annotate("Node", SCALE_DOWN_DISABLED, Some("true"));
    lab.annotate("Node", keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION, Some("true"));
    if kept {
        lab.request("Machine", "now");
        lab.settle();
        assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
    }
    lab.request("Machine", "false");
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), left);
    assert_eq!(
        lab.node_annotation(keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION)
            .as_deref(),
        left
    );
    assert_eq!(lab.node_annotation(keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION), None);
}
