//! A preserved machine does not answer, and pods that must not run twice are kept: they leave the API once its VM is known
//! to be stopped.

use std::time::Duration;

use mcm_api::cloud::Power;
use mcm_api::{Code, DriverError, FencingState, ProviderId, VmIdentity};
use mcm_core::machine::{Action, Answer, CallKind, Fencing, Plan, Pod};
use rstest::rstest;

use super::lab::{Lab, failing};
use crate::fixtures::*;

/// The preserved machine, with the pod of a StatefulSet that was evicted.
fn kept(fencing: Fencing) -> Lab {
    let mut lab = failing();
    lab.request("Machine", "when-failed");
    lab.view.pods = Some(vec![Pod {
        stateful: true,
        ends: Some(minute(9)),
        ..pod("web-0")
    }]);
    // Until the drain is over.
    for _ in 0..20 {
        if lab.phase() == "Failed:Preserved" {
            break;
        }
        let plan = lab.decide();
        lab.carry_out(plan);
    }
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.settings.fencing = fencing;
    lab
}

/// Performs plans until one calls the driver, deletes a pod or does nothing; returns that plan.
fn next(lab: &mut Lab) -> Plan {
    for _ in 0..20 {
        let plan = lab.decide();
        let waits = plan.actions.is_empty() && plan.status.is_none();
        if waits || called(&plan).is_some() || deletes(&plan) {
            return plan;
        }
        lab.carry_out(plan);
    }
    panic!("nothing is called, deleted or awaited");
}

fn called(plan: &Plan) -> Option<CallKind> {
    match plan.actions.last() {
        Some(Action::Call(call)) => Some(call.kind),
        _ => None,
    }
}

fn deletes(plan: &Plan) -> bool {
    let deletion = |action: &Action| matches!(action, Action::DeletePod { grace: Some(0), .. });
    plan.actions.iter().any(deletion)
}

fn vm(lab: &Lab, power: Option<Power>) -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new(lab.machine().spec.provider_id.as_str()),
        power,
        ..VmIdentity::default()
    }
}

/// The state and the error code in the machine's status.
fn state(lab: &Lab) -> Option<(FencingState, String)> {
    let record = lab.machine().status.preservation.as_ref()?;
    let fencing = record.fencing.clone()?;
    Some((fencing.state, fencing.error_code))
}

fn condition_of(lab: &Lab) -> String {
    let status = lab.view.node.present().and_then(|node| node.status.clone());
    let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
    let mut conditions = conditions.into_iter();
    let condition = conditions.find(|condition| condition.type_ == "Preserved");
    condition.and_then(|condition| condition.message).unwrap_or_default()
}

fn error(code: Code) -> DriverError {
    DriverError::new(code, "injected")
}

#[rstest]
#[case::stopped(Some(Power::Stopped), true)]
#[case::running(Some(Power::Running), false)]
#[case::unknown(None, false)]
fn without_fencing_the_driver_is_asked_whether_the_vm_runs(#[case] power: Option<Power>, #[case] stopped: bool) {
    let mut lab = kept(Fencing::None);
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Status));
    lab.view.answers = vec![Answer::Status(Ok(vm(&lab, power)))];
    if !stopped {
        lab.view.power_asked = Some(lab.now);
    }
    let plan = next(&mut lab);
    assert_eq!(deletes(&plan), stopped);
    assert_eq!(state(&lab), None);
    if !stopped {
        let again = lab.settings.retry.long;
        assert!(plan.wake.is_some_and(|wake| wake <= again), "{plan:?}");
    }
}

#[test]
fn the_answer_about_another_vm_does_not_count() {
    let mut lab = kept(Fencing::None);
    let other = VmIdentity {
        provider_id: ProviderId::new("fakecloud:///z1/another"),
        power: Some(Power::Stopped),
        ..VmIdentity::default()
    };
    lab.view.answers = vec![Answer::Status(Ok(other))];
    assert!(!deletes(&next(&mut lab)));
}

#[test]
fn the_intention_is_recorded_before_the_vm_is_stopped() {
    let mut lab = kept(Fencing::StopVm);
    assert_eq!(state(&lab), None);
    let plan = next(&mut lab);
    assert_eq!(called(&plan), Some(CallKind::Stop));
    assert_eq!(state(&lab), Some((FencingState::Stopping, String::new())));
}

#[test]
fn pods_leave_when_the_vm_is_stopped() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Stopped))))];
    let plan = next(&mut lab);
    assert!(deletes(&plan), "{plan:?}");
    lab.carry_out(plan);
    assert_eq!(state(&lab), Some((FencingState::Stopped, String::new())));
    let message = condition_of(&lab);
    let expected = "Preserved node is stopped by its driver on request: 1 pod left the API. Machine preserved until";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_vm_that_is_still_stopping_is_asked_again_soon() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Running))))];
    let plan = next(&mut lab);
    assert!(!deletes(&plan) && called(&plan).is_none(), "{plan:?}");
    assert_eq!(plan.wake, Some(lab.settings.retry.short));
}

#[test]
fn a_lost_outcome_is_looked_up() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    let lost = Answer::Stop(Err(error(Code::DeadlineExceeded)));
    lab.view.answers = vec![lost.clone()];
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Status));
    lab.view.answers = vec![lost, Answer::Status(Ok(vm(&lab, Some(Power::Stopped))))];
    assert!(deletes(&next(&mut lab)));
}

#[rstest]
#[case::transient(
    Code::Unavailable,
    Duration::from_secs(5),
    "its VM could not be stopped (Unavailable)."
)]
#[case::lasting(Code::Internal, Duration::from_mins(3), "its VM could not be stopped (Internal).")]
#[case::missing(Code::Unimplemented, Duration::from_mins(10), "its driver cannot stop VMs.")]
fn a_failed_stop_keeps_the_pods_and_is_repeated(#[case] code: Code, #[case] retry: Duration, #[case] why: &str) {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    lab.view.answers = vec![
        Answer::Stop(Err(error(code))),
        Answer::Status(Ok(vm(&lab, Some(Power::Running)))),
    ];
    if code == Code::Unimplemented {
        lab.view.answers.truncate(1);
    }
    let plan = lab.decide();
    lab.carry_out(plan);
    assert_eq!(state(&lab), Some((FencingState::Failed, code.name().to_owned())));
    let message = condition_of(&lab);
    let expected = format!("Preserved node does not answer: 1 pod kept: web-0; {why} Machine preserved until");
    assert!(message.starts_with(&expected), "{message}");

    lab.view.answers.clear();
    let waiting = next(&mut lab);
    assert!(called(&waiting).is_none() && !deletes(&waiting), "{waiting:?}");
    lab.now = lab.now.checked_add(retry).unwrap();
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
}

#[test]
fn a_failed_deletion_of_a_pod_is_repeated_after_a_while() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Stopped))))];
    let plan = next(&mut lab);
    lab.carry_out(plan);
    let failed = mcm_core::machine::EvictionOutcome::Failed("refused".to_owned());
    let now = lab.now;
    lab.view.drain.attempted("uid-web-0", now, failed);
    let again = next(&mut lab);
    assert!(
        !deletes(&again) && again.wake <= Some(lab.settings.retry.short),
        "{again:?}"
    );
    lab.now = now.checked_add(lab.settings.retry.short).unwrap();
    assert!(deletes(&next(&mut lab)));
}

#[rstest]
#[case::nothing_to_protect(vec![])]
#[case::a_pod_that_may_run_twice(vec![pod("a")])]
#[case::an_ended_pod(vec![Pod { stateful: true, finished: true, ..pod("web-0") }])]
#[case::a_pod_of_a_daemon_set(vec![Pod { daemon: true, claims: true, ..pod("agent") }])]
fn a_vm_without_pods_that_must_not_run_twice_runs_on(#[case] pods: Vec<Pod>) {
    let mut lab = kept(Fencing::StopVm);
    lab.view.pods = Some(pods);
    let plan = next(&mut lab);
    assert!(called(&plan).is_none() && !deletes(&plan), "{plan:?}");
    assert_eq!(state(&lab), None);
}

#[test]
fn a_vm_whose_node_answers_runs_on() {
    let mut lab = kept(Fencing::StopVm);
    lab.reports(vec![condition("Ready", "True"), condition("DiskPressure", "True")]);
    let plan = next(&mut lab);
    assert!(called(&plan).is_none(), "{plan:?}");
    assert_eq!(state(&lab), None);
}

#[test]
fn a_machine_that_recovers_has_no_record_of_the_stop() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    assert!(state(&lab).is_some());
    lab.reports(healthy());
    lab.settle();
    assert_eq!((lab.phase().as_str(), state(&lab)), ("Running:Preserved", None));
}
