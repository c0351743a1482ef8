//! Preservation over the lifecycle of a machine: plans are performed on a view until nothing is left to do.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::NodeSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, PreservationStage, PreservedBy, keys};
use mcm_core::machine::{NodeView, decide};
use mcm_core::preservation::{Admission, Dialect, ListView};
use rstest::rstest;

use super::lab::{Lab, SCALE_DOWN_DISABLED, failing, kept, stuck};
use crate::fixtures::*;

#[test]
fn a_failing_machine_is_claimed_then_drained_then_preserved() {
    let mut lab = failing();
    let done = lab.settle();
    let patch = format!(
        "patch node {SCALE_DOWN_DISABLED}=true {}= taints [{}=:NoSchedule]",
        keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION,
        keys::PRESERVED_TAINT
    );
    let expected = [
        "claim auto",
        "[Failed Draining]",
        &patch,
        "preserved condition true Preserved by MCM.",
        "[Failed:Preserved Preserved]",
        // The node's new condition is copied.
        "[Failed:Preserved Preserved]",
    ];
    assert_eq!(done, expected);
    assert_eq!(lab.expiry(), Some(minute(11 + 72 * 60)));
}

#[test]
fn the_expiry_starts_after_the_drain_which_leaves_daemon_pods() {
    let mut lab = failing();
    // A node with a full disk, which still terminates its pods.
    lab.reports(vec![condition("Ready", "True"), condition("DiskPressure", "True")]);
    let daemon = mcm_core::machine::Pod {
        daemon: true,
        ..pod("daemon")
    };
    lab.view.pods = Some(vec![pod("web"), daemon]);
    let mut performed = Vec::new();
    for _ in 0..6 {
        let plan = lab.decide();
        performed.extend(actions(&plan));
        lab.carry_out(plan);
        if performed.iter().any(|text| text == "evict web") {
            break;
        }
    }
    assert_eq!(performed.last().unwrap(), "evict web", "{performed:?}");
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    lab.view.pods = Some(Vec::new());
    lab.now = minute(15);
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Failed:Preserved", Some(minute(15 + 72 * 60)))
    );
}

#[test]
fn the_drain_timeout_limits_the_drain_of_a_preservation() {
    let mut lab = stuck();
    lab.settle();
    assert_eq!(lab.phase(), "Failed");
    lab.now = minute(11 + 119);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.decide().wake), ("Failed", Some(mins(1))));
    lab.now = minute(11 + 120);
    let done = lab.settle().join(" ");
    assert_eq!(lab.phase(), "Failed:Preserved", "{done}");
}

#[test]
fn a_user_request_claims_an_entry_regardless_of_the_maximum() {
    for (kind, by) in [("Node", PreservedBy::Node), ("Machine", PreservedBy::Machine)] {
        let mut lab = failing();
        lab.request(kind, "when-failed");
        let done = lab.settle();
        assert!(done.contains(&format!("claim {by} again")), "{done:?}");
        assert_eq!(lab.machine().status.preservation.as_ref().unwrap().by, by);
        assert_eq!(
            lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
            Some("when-failed")
        );
    }
}

#[test]
fn a_running_machine_is_protected_from_scale_down_until_its_expiry() {
    let mut lab = Lab::new(running());
    lab.request("Node", "now");
    lab.settle();
    assert_eq!(
        (
            lab.phase().as_str(),
            lab.node_annotation(SCALE_DOWN_DISABLED).as_deref()
        ),
        ("Running:Preserved", Some("true"))
    );
    assert!(!lab.is_tainted());
    lab.annotate("Node", SCALE_DOWN_DISABLED, Some("false"));
    lab.settle();
    assert_eq!(
        lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(),
        Some("true"),
        "a user's change is overwritten"
    );
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!(
        (
            lab.phase().as_str(),
            lab.expiry(),
            lab.node_annotation(SCALE_DOWN_DISABLED)
        ),
        ("Running", None, None)
    );
    assert_eq!(lab.machine().status.preservation, None);
    assert_eq!(
        (
            lab.node_annotation(keys::PRESERVE_ANNOTATION),
            lab.machine_annotation(keys::PRESERVE_ANNOTATION)
        ),
        (None, None)
    );
    assert_eq!(lab.settle(), [""; 0]);
}

#[rstest]
#[case::set_to_false(Some("false"))]
#[case::removed(None)]
fn a_changed_annotation_that_ended_a_preservation_is_not_modified(#[case] value: Option<&str>) {
    let mut lab = Lab::new(running());
    lab.request("Node", "now");
    lab.settle();
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, value);
    lab.settle();
    assert_eq!(
        (
            lab.phase().as_str(),
            lab.expiry(),
            lab.node_annotation(SCALE_DOWN_DISABLED)
        ),
        ("Running", None, None)
    );
    assert_eq!(lab.node_annotation(keys::PRESERVE_ANNOTATION).as_deref(), value);
    assert_eq!(lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(), value);
}

#[test]
fn replacing_now_by_when_failed_ends_the_preservation_of_a_running_machine() {
    let mut lab = Lab::new(running());
    lab.request("Node", "now");
    lab.settle();
    lab.request("Node", "when-failed");
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!(
        lab.node_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
}

#[rstest]
#[case::not_set(None)]
#[case::disabled("true")]
#[case::enabled("false")]
fn the_scale_down_annotation_is_restored_to_its_previous_value<'a>(#[case] before: impl Into<Option<&'a str>>) {
    let before = before.into();
    let mut lab = Lab::new(running());
    lab.annotate("Node", SCALE_DOWN_DISABLED, before);
    lab.request("Machine", "now");
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
    lab.request("Machine", "false");
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), before);
    assert_eq!(lab.node_annotation(keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION), None);
}

#[test]
fn the_scale_down_annotation_of_a_rollout_is_kept() {
    let mut lab = Lab::new(running());
    lab.annotate("Node", SCALE_DOWN_DISABLED, Some("true"));
    lab.annotate("Node", keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION, Some("true"));
    lab.request("Machine", "now");
    lab.settle();
    lab.request("Machine", "false");
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
}

#[test]
fn a_cordon_is_never_changed() {
    let mut lab = failing();
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        node.spec = Some(NodeSpec {
            unschedulable: Some(true),
            ..NodeSpec::default()
        });
    }
    let mut done = lab.settle();
    lab.reports(healthy());
    done.extend(lab.settle());
    lab.now = lab.expiry().unwrap();
    done.extend(lab.settle());
    assert!(!done.iter().any(|text| text.contains("cordon")), "{done:?}");
    let node = lab.view.node.present().unwrap();
    assert_eq!(node.spec.as_ref().unwrap().unschedulable, Some(true));
}

#[test]
fn a_recovered_machine_stays_preserved_until_its_expiry_and_leaves_the_list() {
    let mut lab = kept();
    let ends = lab.expiry();
    lab.now = minute(60);
    lab.reports(healthy());
    let done = lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running:Preserved", ends));
    assert!(done.contains(&"leave the list".to_owned()), "{done:?}");
    assert!(!lab.is_tainted());
    lab.now = ends.unwrap();
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), lab.node_annotation(SCALE_DOWN_DISABLED)),
        ("Running", None)
    );
}

#[test]
fn a_relapse_is_drained_again_and_keeps_its_expiry() {
    let mut lab = kept();
    let ends = lab.expiry();
    lab.now = minute(60);
    lab.reports(healthy());
    lab.settle();
    lab.reports(unhealthy());
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Unknown", ends));
    lab.answer = Ok(());
    lab.now = minute(71);
    let done = lab.settle();
    assert!(done.contains(&"claim auto again".to_owned()), "{done:?}");
    assert!(done.contains(&"[Failed Draining]".to_owned()), "{done:?}");
    assert_eq!(
        (lab.phase().as_str(), lab.expiry(), lab.is_tainted()),
        ("Failed:Preserved", ends, true)
    );
}

#[test]
fn a_changed_preserve_timeout_applies_to_later_preservations() {
    let mut lab = kept();
    let ends = lab.expiry();
    lab.view.machine.spec.configuration.machine_preserve_timeout = Some("1h".parse().unwrap());
    lab.settle();
    assert_eq!(lab.expiry(), ends);
    lab.now = ends.unwrap();
    lab.reports(healthy());
    lab.settle();
    assert_eq!(lab.phase(), "Running");
    let begins = lab.now;
    lab.request("Node", "now");
    lab.settle();
    assert_eq!(lab.expiry(), begins.checked_add(SignedDuration::from_hours(1)).ok());
}

/// A relapse whose drain waits for a slowly terminating pod.
fn relapsing() -> Lab {
    let mut lab = Lab::new(with_conditions(with_vm(Phase::Running), &healthy()));
    lab.request("Machine", "now");
    lab.settle();
    lab.now = minute(60);
    lab.reports(vec![condition("Ready", "True"), condition("DiskPressure", "True")]);
    lab.settle();
    lab.view.pods = Some(vec![mcm_core::machine::Pod {
        ends: Some(minute(500)),
        ..pod("web")
    }]);
    lab.now = minute(71);
    let done = lab.settle();
    assert_eq!(lab.phase(), "Failed", "{done:?}");
    lab
}

#[test]
fn the_drain_of_a_relapse_wakes_up_at_the_expiry() {
    let mut lab = relapsing();
    let ends = Time(minute(72));
    lab.view.machine.status.current_status.preserve_expiry_time = Some(ends);
    lab.settle();
    let plan = lab.decide();
    assert_eq!(plan.wake, Some(std::time::Duration::from_secs(60)));
}

#[test]
fn removing_the_expiry_of_a_relapse_ends_it_during_the_drain() {
    let mut lab = relapsing();
    lab.view.machine.status.current_status.preserve_expiry_time = None;
    let done = lab.settle();
    let record = lab.machine().status.preservation.clone().unwrap();
    assert_eq!(record.stage, PreservationStage::Releasing, "{done:?}");
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[rstest]
#[case::running(true, "Running")]
#[case::failed(false, "Failed")]
fn removing_the_expiry_ends_the_preservation_and_removes_its_request(#[case] running: bool, #[case] phase: &str) {
    let mut lab = if running {
        Lab::new(with_conditions(with_vm(Phase::Running), &healthy()))
    } else {
        failing()
    };
    lab.request("Node", "now");
    lab.settle();
    assert!(lab.phase().ends_with(":Preserved"));
    lab.view.machine.status.current_status.preserve_expiry_time = None;
    let done = lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), (phase, None), "{done:?}");
    assert_eq!(lab.node_annotation(keys::PRESERVE_ANNOTATION), None, "{done:?}");
    assert!(!lab.machine().status.is_preserved());
}

#[rstest]
#[case::room(Dialect::V2, Ok(()), "Failed:Preserved")]
#[case::full(Dialect::V2, Err(Admission::Full), "Failed")]
#[case::rollout(Dialect::V2, Err(Admission::RollingOut), "Failed")]
#[case::upstream_dialect(Dialect::Upstream, Ok(()), "Failed")]
#[case::off(Dialect::Off, Ok(()), "Failed")]
fn a_machine_marked_by_another_controller_is_preserved_if_allowed(
    #[case] dialect: Dialect,
    #[case] answer: Result<(), Admission>,
    #[case] phase: &str,
) {
    let mut lab = Lab::new(with_conditions(with_vm(Phase::Failed), &unhealthy()));
    (lab.settings.preservation, lab.answer) = (dialect, answer);
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, Some("auto-preserved"));
    let done = lab.settle();
    let kept = dialect != Dialect::Off && answer.is_ok();
    assert_eq!(lab.phase(), phase, "{done:?}");
    assert_eq!(lab.expiry().is_some(), kept, "{done:?}");
    let annotations = lab.machine().metadata.annotations.clone().unwrap_or_default();
    let annotated = annotations.contains_key(keys::PRESERVE_ANNOTATION);
    assert_eq!(annotated, dialect == Dialect::Upstream, "{done:?}");
}

#[test]
fn an_expired_failed_machine_waits_for_its_owner() {
    let mut lab = kept();
    lab.now = lab.expiry().unwrap();
    lab.settle();
    let status = &lab.machine().status;
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert_eq!(
        status.preservation.as_ref().unwrap().stage,
        PreservationStage::Releasing
    );
    assert!(!status.is_preserved());
    assert!(!lab.is_tainted());
}

#[test]
fn an_expired_failed_standalone_machine_is_deleted() {
    let mut lab = failing();
    lab.view.machine.metadata.owner_references = None;
    lab.view.owners_list = ListView::NoList;
    lab.request("Machine", "when-failed");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.now = lab.expiry().unwrap();
    let mut last = None;
    for _ in 0..10 {
        let plan = lab.decide();
        last = actions(&plan).pop();
        lab.carry_out(plan);
        if last.as_deref() == Some("delete machine") {
            break;
        }
    }
    assert_eq!(last.as_deref(), Some("delete machine"));
}

#[test]
fn a_failing_machine_is_replaced_during_a_rollout_despite_a_request() {
    let mut lab = failing();
    lab.answer = Err(Admission::RollingOut);
    lab.request("Machine", "when-failed");
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(!lab.machine().status.is_preserved());
}

#[test]
fn a_preserved_machine_that_fails_in_a_rollout_is_released_despite_its_request() {
    let mut lab = Lab::new(with_vm(Phase::Running));
    lab.request("Machine", "now");
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
    lab.view.owners_list = ListView::Known {
        maximum: 1,
        rolling: true,
        deployed: true,
        entry: None,
        others: BTreeSet::new(),
    };
    lab.fails_in_a_rollout();
    assert!(!lab.machine().status.is_preserved());
    assert!(!lab.is_tainted());
}

#[test]
fn a_lowered_maximum_releases_marked_entries() {
    let mut lab = kept();
    if let ListView::Known { entry, .. } = &mut lab.view.owners_list {
        entry.as_mut().unwrap().released = true;
    }
    let done = lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(done.contains(&"leave the list".to_owned()), "{done:?}");
}

#[test]
fn an_automatic_preservation_becomes_manual_and_keeps_its_expiry() {
    let mut lab = kept();
    let ends = lab.expiry();
    lab.now = minute(30);
    lab.request("Node", "now");
    let done = lab.settle();
    assert!(
        done.contains(&"claim node again".to_owned()),
        "the list is updated as well: {done:?}"
    );
    assert_eq!(lab.expiry(), ends);
    assert_eq!(
        lab.machine().status.preservation.as_ref().unwrap().by,
        PreservedBy::Node
    );
}

#[test]
fn a_machine_without_a_node_is_preserved_without_a_drain() {
    let mut view = with_vm(Phase::Pending);
    view.node = NodeView::Absent;
    let mut lab = Lab::new(view);
    lab.now = minute(21);
    lab.request("Machine", "when-failed");
    let done = lab.settle();
    assert_eq!(
        done,
        [
            "claim machine again",
            "[Failed Draining]",
            "[Failed:Preserved Preserved]"
        ]
    );
}

#[test]
fn now_is_honoured_in_every_phase_and_shown_in_phases_with_a_preserved_variant() {
    let mut view = with_vm(Phase::Pending);
    view.node = NodeView::Absent;
    let mut lab = Lab::new(view);
    lab.request("Machine", "now");
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Pending", Some(minute(1 + 72 * 60)))
    );
    lab.view = with_node(lab.view.clone(), node(&healthy()));
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
}

#[test]
fn a_preserved_machine_wakes_up_at_its_edited_expiry() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(5)));
    lab.settle();
    let plan = decide(&lab.view, &lab.settings, minute(3));
    assert_eq!(plan.wake, Some(mins(2)));
    lab.now = minute(5);
    lab.settle();
    assert_eq!(lab.phase(), "Running");
}

#[test]
fn the_upstream_dialect_keeps_the_phases_and_marks_automatic_preservations() {
    let mut lab = failing();
    lab.settings.preservation = Dialect::Upstream;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry().is_some()), ("Failed", true));
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("auto-preserved")
    );
    lab.reports(healthy());
    lab.settle();
    assert_eq!(
        (
            lab.phase().as_str(),
            lab.expiry(),
            lab.machine_annotation(keys::PRESERVE_ANNOTATION)
        ),
        ("Running", None, None)
    );
}

#[rstest]
#[case::to_upstream(Dialect::Upstream, "Failed", true)]
#[case::to_off(Dialect::Off, "Failed", false)]
fn a_changed_dialect_adopts_existing_preservations(
    #[case] dialect: Dialect,
    #[case] phase: &str,
    #[case] kept_on: bool,
) {
    let mut lab = kept();
    lab.settings.preservation = dialect;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry().is_some()), (phase, kept_on));
    if kept_on {
        lab.settings.preservation = Dialect::V2;
        lab.settle();
        assert_eq!(
            (lab.phase().as_str(), lab.machine_annotation(keys::PRESERVE_ANNOTATION)),
            ("Failed:Preserved", None)
        );
    }
}

#[test]
fn a_deletion_ends_a_preservation_at_once() {
    let mut lab = kept();
    lab.view.machine.metadata.deletion_timestamp = Some(Time(minute(20)));
    let plan = decide(&lab.view, &lab.settings, minute(20));
    let status = plan.status.unwrap();
    assert_eq!(status.current_status.phase, Some(Phase::Terminating));
    assert_eq!(
        (status.current_status.preserve_expiry_time, status.preservation),
        (None, None)
    );
}

#[test]
fn an_unknown_preserved_machine_wakes_up_at_its_expiry() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    lab.view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(5)));
    lab.settle();
    lab.reports(unhealthy());
    let plan = decide(&lab.view, &lab.settings, minute(3));
    assert_eq!(written(&plan).0, "Unknown");
    assert_eq!(plan.wake, Some(mins(2)));
}
