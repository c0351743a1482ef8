//! The owner's part of a remediation that a health check requests.

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage, keys};
use mcm_core::health_check::owner::OwnerState;
use mcm_core::machine::{Plan, Sibling, View};
use mcm_core::remediation::Rank;
use rstest::rstest;

use crate::fixtures::*;

/// A Running machine of a set whose replacement a health check requests.
fn requested() -> View {
    let mut view = with_vm(Phase::Running);
    view.owners_list = mcm_core::preservation::ListView::NoList;
    view.machine.metadata.owner_references = Some(vec![OwnerReference {
        controller: Some(true),
        kind: "MachineSet".to_owned(),
        uid: "set".to_owned(),
        ..OwnerReference::default()
    }]);
    for type_ in [keys::HEALTH_CHECK_SUCCEEDED, keys::OWNER_REMEDIATED] {
        view.machine.status.conditions.push(NodeCondition {
            type_: type_.to_owned(),
            status: "False".to_owned(),
            reason: Some("UnhealthyNode".to_owned()),
            ..NodeCondition::default()
        });
    }
    view
}

fn reason(plan: &Plan) -> Option<String> {
    plan.status.as_ref().and_then(reason_of)
}

fn reason_of(status: &MachineStatus) -> Option<String> {
    status.condition(keys::OWNER_REMEDIATED)?.reason.clone()
}

fn sibling(name: &str, phase: Phase, requested: Option<Rank>) -> Sibling {
    Sibling {
        name: name.try_into().unwrap(),
        phase: Some(phase),
        preserved: false,
        patient: false,
        joined: None,
        requested,
    }
}

/// The conditions of another controller stay when mcm copies those of the Node.
#[rstest]
#[case::of_another_controller("example.com/Disk", false, true)]
#[case::which_a_program_on_the_node_renewed("example.com/Disk", true, false)]
#[case::which_the_node_had("MemoryPressure", false, false)]
fn a_condition_of_another_controller_stays(#[case] type_: &str, #[case] is_renewed: bool, #[case] stays: bool) {
    let mut view = with_conditions(with_vm(Phase::Running), &unhealthy());
    view.machine.status.conditions.push(NodeCondition {
        type_: type_.to_owned(),
        status: "False".to_owned(),
        last_heartbeat_time: is_renewed.then(|| Time(start())),
        ..NodeCondition::default()
    });
    let status = decide_now(&view).status.unwrap();
    assert_eq!(status.condition(type_).is_some(), stays, "{:?}", status.conditions);
}

#[test]
fn the_machine_becomes_failed_and_its_set_deletes_it() {
    let view = requested();
    let plan = decide_now(&view);
    let status = plan.status.clone().unwrap();
    assert_eq!(status.current_status.phase, Some(Phase::Failed));
    assert_eq!(reason(&plan).as_deref(), Some("MachineDeleting"));
    assert!(
        status
            .last_operation
            .unwrap()
            .description
            .contains("failed its health check: UnhealthyNode")
    );
}

#[test]
fn a_machine_without_an_owner_is_left_alone() {
    let mut view = requested();
    view.machine.metadata.owner_references = None;
    assert_ne!(phase_of(&decide_now(&view)), Some(Phase::Failed));
}

#[rstest]
#[case::one_is_being_replaced(1, "RemediationDeferred")]
#[case::two_may_be(2, "MachineDeleting")]
fn a_machine_waits_for_its_turn(#[case] max_in_flight: usize, #[case] expected: &str) {
    let mut view = requested();
    view.owner_state.max_in_flight = max_in_flight;
    view.siblings = vec![sibling("other", Phase::Terminating, None)];
    assert_eq!(reason(&decide_now(&view)).as_deref(), Some(expected));
}

#[test]
fn a_sibling_of_a_lower_rank_comes_first() {
    let mut view = requested();
    let mut first = view.machine.clone();
    first.metadata.name = Some("a-first".to_owned());
    view.siblings = vec![sibling("a-first", Phase::Running, Rank::of(&first))];
    let expected = if Rank::of(&first) < Rank::of(&view.machine) {
        "RemediationDeferred"
    } else {
        "MachineDeleting"
    };
    assert_eq!(reason(&decide_now(&view)).as_deref(), Some(expected));
}

#[test]
fn a_rollout_replaces_a_machine_of_an_old_revision() {
    let mut view = requested();
    view.owner_state = OwnerState {
        is_rolled_out: true,
        ..OwnerState::default()
    };
    let plan = decide_now(&view);
    assert_eq!(reason(&plan).as_deref(), Some("CannotBeRemediated"));
    assert_ne!(phase_of(&plan), Some(Phase::Failed));
}

#[test]
fn a_preserved_machine_is_kept_until_its_expiry() {
    let mut view = requested();
    let later = minute(60).checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
    view.machine.status.current_status.preserve_expiry_time = Some(Time(later));
    view.machine.metadata.annotations = Some([(keys::PRESERVE_ANNOTATION.to_owned(), "now".to_owned())].into());
    let plan = decide_now(&view);
    assert_ne!(phase_of(&plan), Some(Phase::Failed));
}

/// A machine that failed while its request `now` is not removed yet would be preserved once more.
#[test]
fn a_machine_whose_preservation_ends_is_replaced_after_it() {
    let mut view = requested();
    view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(59)));
    view.machine.status.preservation = Some(Preservation {
        stage: PreservationStage::Releasing,
        ..Preservation::default()
    });
    view.machine.metadata.annotations = Some([(keys::PRESERVE_ANNOTATION.to_owned(), "now".to_owned())].into());
    let plan = decide_now(&view);
    assert_ne!(phase_of(&plan), Some(Phase::Failed));
}

#[test]
fn an_annotation_defers_the_replacement() {
    let mut view = requested();
    view.machine.metadata.annotations = Some([(keys::SKIP_REMEDIATION_ANNOTATION.to_owned(), String::new())].into());
    assert_eq!(reason(&decide_now(&view)).as_deref(), Some("RemediationDeferred"));
}

#[test]
fn the_request_of_a_machine_that_recovered_is_withdrawn() {
    let mut view = requested();
    for condition in &mut view.machine.status.conditions {
        if condition.type_ == keys::HEALTH_CHECK_SUCCEEDED {
            condition.status = "True".to_owned();
        }
    }
    let plan = decide_now(&view);
    assert_eq!(plan.status.as_ref().map(reason_of), Some(None));
    assert_ne!(phase_of(&plan), Some(Phase::Failed));
}

/// The conditions of health checks are no conditions of the Node.
#[test]
fn the_conditions_of_checks_survive_a_copy_of_the_nodes_conditions() {
    let mut view = with_node(requested(), node(&unhealthy()));
    view.owner_state.is_rolled_out = true;
    let status = decide_now(&view).status.unwrap();
    assert!(status.condition(keys::HEALTH_CHECK_SUCCEEDED).is_some());
    assert!(status.condition(keys::OWNER_REMEDIATED).is_some());
}

fn decide_now(view: &View) -> Plan {
    mcm_core::machine::decide(view, &mcm_core::machine::Settings::default(), minute(60))
}

fn phase_of(plan: &Plan) -> Option<Phase> {
    plan.status.as_ref()?.current_status.phase.clone()
}

/// A user requests the replacement of a machine whose node is healthy.
#[test]
fn a_failed_machine_whose_replacement_is_requested_does_not_run_again() {
    let mut view = requested();
    view.machine.status.current_status.phase = Some(Phase::Failed);
    let mut view = with_node(view, node(&healthy()));
    assert_ne!(phase_of(&decide_now(&view)), Some(Phase::Running));
    view.machine.metadata.owner_references = None;
    assert_eq!(
        phase_of(&decide_now(&view)),
        Some(Phase::Running),
        "nobody replaces a machine without an owner"
    );
}

#[test]
fn the_withdrawal_of_a_request_keeps_the_phase_of_a_preserved_machine() {
    let mut view = requested();
    view.machine.status.current_status.phase = Some(Phase::RunningPreserved);
    view.machine.status.current_status.preserve_expiry_time = Some(Time("2099-01-01T00:00:00Z".parse().unwrap()));
    for condition in &mut view.machine.status.conditions {
        if condition.type_ == keys::HEALTH_CHECK_SUCCEEDED {
            condition.status = "True".to_owned();
        }
    }
    let plan = decide_now(&view);
    let status = plan.status.unwrap();
    assert_eq!(status.condition(keys::OWNER_REMEDIATED), None);
    assert_eq!(status.current_status.phase, Some(Phase::RunningPreserved));
}
