//! What another controller began to preserve, or another dialect: there is an expiry, and no record says how it came.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, PreservationStage, PreservedBy, keys};
use mcm_core::preservation::Standing;
use rstest::rstest;

use super::lab::{CA, Lab};
use crate::fixtures::*;

/// Preserved until minute 100 by somebody who kept no record.
fn theirs(phase: Phase) -> Lab {
    let conditions = if phase == Phase::Failed { unhealthy() } else { healthy() };
    let mut lab = Lab::new(with_conditions(with_vm(phase), &conditions));
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(100)));
    lab
}

#[rstest]
#[case::upstreams_word("Machine", "auto-preserved", PreservedBy::Auto)]
#[case::the_machines_request("Machine", "when-failed", PreservedBy::Machine)]
#[case::the_nodes_request("Node", "when-failed", PreservedBy::Node)]
fn a_failed_machine_is_drained_and_kept_until_its_expiry(
    #[case] kind: &str,
    #[case] word: &str,
    #[case] by: PreservedBy,
) {
    let mut lab = theirs(Phase::Failed);
    lab.ask(kind, word);
    let done = lab.settle();
    assert!(done.contains(&"[Failed Draining]".to_owned()), "{done:?}");
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Failed:Preserved", Some(minute(100)))
    );
    assert_eq!(lab.machine().status.preservation.as_ref().unwrap().by, by);
    assert!(matches!(&lab.view.ledger, Standing::Known { entry: Some(entry), .. } if entry.by == by));
}

#[rstest]
#[case::the_machines_request("Machine", PreservedBy::Machine)]
#[case::the_nodes_request("Node", PreservedBy::Node)]
fn a_machine_that_serves_is_kept_until_its_expiry(#[case] kind: &str, #[case] by: PreservedBy) {
    let mut lab = theirs(Phase::Running);
    lab.ask(kind, "now");
    let done = lab.settle();
    assert!(!done.iter().any(|word| word.contains("Draining")), "{done:?}");
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Running:Preserved", Some(minute(100))),
        "{done:?}"
    );
    let record = lab.machine().status.preservation.clone().unwrap();
    assert_eq!((record.by, record.stage), (by, PreservationStage::Preserved));
}

#[test]
fn an_expiry_for_which_nobody_asks_ends() {
    let mut lab = theirs(Phase::Running);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION), None);
}

#[rstest]
#[case::of_a_set_alone(false, true, None)]
#[case::of_a_set_alone_and_ended_at_once(false, false, None)]
#[case::of_a_rollout(true, true, Some("true"))]
fn what_kept_the_autoscaler_away_goes_with_a_preservation_unless_a_rollout_wants_it(
    #[case] deployed: bool,
    #[case] kept: bool,
    #[case] left: Option<&str>,
) {
    let mut lab = theirs(Phase::Running);
    if let Standing::Known { deployed: known, .. } = &mut lab.view.ledger {
        *known = deployed;
    }
    lab.annotate("Node", CA, Some("true"));
    lab.annotate("Node", keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION, Some("true"));
    if kept {
        lab.ask("Machine", "now");
        lab.settle();
        assert_eq!(lab.node(CA).as_deref(), Some("true"));
    }
    lab.ask("Machine", "false");
    lab.settle();
    assert_eq!(lab.node(CA).as_deref(), left);
    assert_eq!(lab.node(keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION).as_deref(), left);
    assert_eq!(lab.node(keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION), None);
}
