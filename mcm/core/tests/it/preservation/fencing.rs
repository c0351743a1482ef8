//! A preserved machine does not answer, and pods that must not run twice are kept: they leave the API once its VM is known
//! to be stopped.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::cloud::Power;
use mcm_api::{Code, DriverError, FencingState, ProviderId, VmIdentity};
use mcm_core::machine::{Action, Answer, CallKind, EvictionOutcome, Fencing, Plan, Pod};
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

/// The reasons of a plan's events.
fn events(plan: &Plan) -> Vec<&str> {
    let reasons = plan.actions.iter().filter_map(|action| match action {
        Action::RecordEvent { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    reasons.collect()
}

/// The VM is stopped, and its pod is deleted with that outcome.
fn deleted(outcome: EvictionOutcome) -> Lab {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Stopped))))];
    let plan = next(&mut lab);
    assert_eq!(events(&plan), ["PodsOfStoppedNodeDeleted"]);
    lab.carry_out(plan);
    lab.view.drain.attempted("uid-web-0", lab.now, outcome);
    lab
}

fn wait(lab: &mut Lab, time: Duration) {
    lab.now = lab.now.checked_add(time).unwrap();
}

fn since(time: Timestamp, condition: NodeCondition) -> NodeCondition {
    NodeCondition {
        last_transition_time: Some(Time(time)),
        ..condition
    }
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
fn the_answer_about_another_vm_does_not_count_and_is_not_asked_for_again_soon() {
    let mut lab = kept(Fencing::None);
    let other = VmIdentity {
        provider_id: ProviderId::new("fakecloud:///z1/another"),
        power: Some(Power::Stopped),
        ..VmIdentity::default()
    };
    lab.view.answers = vec![Answer::Status(Ok(other))];
    let plan = next(&mut lab);
    assert!(!deletes(&plan) && called(&plan).is_none(), "{plan:?}");
    lab.view.answers.clear();
    lab.view.power_asked = Some(lab.now);
    let retry = lab.settings.retry.long;
    wait(&mut lab, retry / 2);
    assert_eq!(called(&next(&mut lab)), None);
    wait(&mut lab, retry / 2);
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Status));
}

#[rstest]
#[case::failed(EvictionOutcome::Failed("refused".to_owned()), true)]
#[case::accepted(EvictionOutcome::Accepted, false)]
fn the_driver_is_asked_again_soon_after_a_deletion_that_failed(#[case] outcome: EvictionOutcome, #[case] asked: bool) {
    let mut lab = kept(Fencing::None);
    lab.view.answers = vec![Answer::Status(Ok(vm(&lab, Some(Power::Stopped))))];
    lab.view.power_asked = Some(lab.now);
    let plan = next(&mut lab);
    assert!(deletes(&plan), "{plan:?}");
    lab.carry_out(plan);
    lab.view.drain.attempted("uid-web-0", lab.now, outcome);
    lab.view.answers.clear();
    let retry = lab.settings.retry.short;
    wait(&mut lab, retry);
    assert_eq!(called(&next(&mut lab)).is_some(), asked);
    // The VM runs again.
    lab.view.answers = vec![Answer::Status(Ok(vm(&lab, Some(Power::Running))))];
    lab.view.power_asked = Some(lab.now);
    assert_eq!(called(&next(&mut lab)), None);
    lab.view.answers.clear();
    wait(&mut lab, retry);
    assert_eq!(called(&next(&mut lab)), None);
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
    let retry = lab.settings.retry.short;
    assert_eq!(plan.wake, Some(retry));
    lab.view.answers.clear();
    lab.view.power_asked = Some(lab.now);
    assert_eq!(called(&next(&mut lab)), None);
    wait(&mut lab, retry);
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
}

#[test]
fn a_vm_that_stops_slowly_after_a_failure_is_asked_again_soon() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    let failed = Answer::Stop(Err(error(Code::Internal)));
    lab.view.answers = vec![failed, Answer::Status(Ok(vm(&lab, Some(Power::Running))))];
    let plan = lab.decide();
    lab.carry_out(plan);
    lab.view.call_failed = Some(lab.now);
    let (short, medium) = (lab.settings.retry.short, lab.settings.retry.medium);
    wait(&mut lab, medium);
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Running))))];
    assert_eq!(next(&mut lab).wake, Some(short));
    lab.view.answers.clear();
    lab.view.power_asked = Some(lab.now);
    wait(&mut lab, short);
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
}

#[test]
fn the_time_to_stop_begins_with_the_first_success() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    let failed = Answer::Stop(Err(error(Code::Internal)));
    lab.view.answers = vec![failed, Answer::Status(Ok(vm(&lab, Some(Power::Running))))];
    let plan = lab.decide();
    lab.carry_out(plan);
    wait(&mut lab, Duration::from_mins(20));
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Running))))];
    let plan = lab.decide();
    assert!(plan.actions.is_empty(), "{plan:?}");
    assert_eq!(plan.wake, Some(lab.settings.retry.short));
    lab.carry_out(plan);
    assert_eq!(state(&lab), Some((FencingState::Stopping, String::new())));
}

#[test]
fn a_vm_that_does_not_stop_is_reported_once_and_stopped_less_often() {
    let mut lab = kept(Fencing::StopVm);
    next(&mut lab);
    wait(&mut lab, Duration::from_mins(5) + Duration::from_secs(1));
    let running = Answer::Stop(Ok(vm(&lab, Some(Power::Running))));
    lab.view.answers = vec![running.clone()];
    let plan = lab.decide();
    assert_eq!(events(&plan), ["StopVMFailed"]);
    lab.carry_out(plan);
    assert_eq!(state(&lab), Some((FencingState::Failed, String::new())));
    let message = condition_of(&lab);
    let expected = "1 pod kept: web-0; StopMachine succeeds, but the driver does not report the VM as stopped.";
    assert!(message.contains(expected), "{message}");

    let retry = lab.settings.retry.medium;
    for _ in 0..2 {
        lab.view.answers.clear();
        lab.view.power_asked = Some(lab.now);
        wait(&mut lab, retry / 2);
        assert_eq!(called(&next(&mut lab)), None);
        wait(&mut lab, retry / 2);
        assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
        lab.view.answers = vec![running.clone()];
        let plan = lab.decide();
        assert!(plan.actions.is_empty() && plan.status.is_none(), "{plan:?}");
        assert_eq!(plan.wake, Some(retry));
    }
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Stopped))))];
    assert!(deletes(&next(&mut lab)));
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
#[case::without_a_vm(
    Code::NotFound,
    Duration::from_mins(10),
    "the cloud has no VM of this machine; release the preservation to replace it."
)]
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
    let expected = format!("Preserved node is not Ready: 1 pod kept: web-0; {why} Machine preserved until");
    assert!(message.starts_with(&expected), "{message}");

    lab.view.answers.clear();
    let waiting = next(&mut lab);
    assert!(called(&waiting).is_none() && !deletes(&waiting), "{waiting:?}");
    lab.now = lab.now.checked_add(retry).unwrap();
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
}

#[rstest]
#[case::that_failed(EvictionOutcome::Failed("refused".to_owned()), Duration::from_secs(5))]
#[case::of_a_pod_with_a_finalizer(EvictionOutcome::Accepted, Duration::from_mins(10))]
fn a_deletion_is_repeated_after_a_while_without_another_event(
    #[case] outcome: EvictionOutcome,
    #[case] retry: Duration,
) {
    let mut lab = deleted(outcome);
    wait(&mut lab, retry / 2);
    lab.view.power_asked = Some(lab.now);
    let waiting = next(&mut lab);
    assert!(!deletes(&waiting) && called(&waiting).is_none(), "{waiting:?}");
    assert!(waiting.wake.is_some_and(|wake| wake <= retry), "{waiting:?}");
    lab.view.answers.clear();
    wait(&mut lab, retry);
    let intention = lab.decide();
    assert!(
        intention.status.is_some() && events(&intention).is_empty(),
        "{intention:?}"
    );
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Stopped))))];
    let again = next(&mut lab);
    assert!(deletes(&again) && events(&again).is_empty(), "{again:?}");
    lab.carry_out(again);
    assert_eq!(state(&lab), Some((FencingState::Stopped, String::new())));
}

#[test]
fn an_eviction_before_the_stop_is_not_a_deletion() {
    let mut lab = kept(Fencing::StopVm);
    lab.view
        .drain
        .attempted("uid-web-0", lab.now, EvictionOutcome::Accepted);
    next(&mut lab);
    lab.view.answers = vec![Answer::Stop(Ok(vm(&lab, Some(Power::Stopped))))];
    // The process loses its leadership before the first deletion.
    lab.view.drain = next(&mut lab).drain.unwrap();
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

#[rstest]
#[case::under_pressure(vec![condition("Ready", "True"), condition("DiskPressure", "True")])]
#[case::with_a_disk_that_cannot_be_written(vec![condition("Ready", "True"), condition("ReadonlyFilesystem", "True")])]
fn a_vm_whose_node_answers_runs_on(#[case] conditions: Vec<NodeCondition>) {
    let mut lab = kept(Fencing::StopVm);
    lab.reports(conditions);
    let plan = next(&mut lab);
    assert!(called(&plan).is_none(), "{plan:?}");
    assert_eq!(state(&lab), None);
}

#[test]
fn only_the_time_without_readiness_counts() {
    let mut lab = kept(Fencing::StopVm);
    let second = lab.now - Duration::from_secs(1);
    let unready = since(second, condition("Ready", "False"));
    lab.reports(vec![unready, condition("ReadonlyFilesystem", "True")]);
    let plan = next(&mut lab);
    assert!(called(&plan).is_none(), "{plan:?}");
    assert_eq!(state(&lab), None);
    let wake = plan.wake.unwrap();
    assert!(wake <= Duration::from_mins(5), "{plan:?}");
    wait(&mut lab, wake);
    assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
}

#[rstest]
#[case::a_kubelet_that_answers("False", false)]
#[case::no_kubelet("Unknown", true)]
fn a_kubelet_that_answers_ends_the_pods_first(#[case] ready: &str, #[case] stops: bool) {
    let mut lab = kept(Fencing::StopVm);
    lab.reports(vec![condition("Ready", ready)]);
    lab.view.pods.as_mut().unwrap()[0].ends = Some(minute(20));
    let plan = next(&mut lab);
    assert_eq!(called(&plan).is_some(), stops);
    assert_eq!(state(&lab).is_some(), stops);
    if !stops {
        assert_eq!(plan.wake, Some(Duration::from_mins(9)));
        lab.now = minute(20);
        assert_eq!(called(&next(&mut lab)), Some(CallKind::Stop));
    }
}

#[test]
fn another_stop_is_recorded_before_it_begins() {
    let mut lab = deleted(EvictionOutcome::Accepted);
    lab.view.answers.clear();
    let pod = Pod {
        stateful: true,
        ..pod("web-1")
    };
    lab.view.pods = Some(vec![pod]);
    let plan = lab.decide();
    assert_eq!(events(&plan), ["StoppingVM"]);
    lab.carry_out(plan);
    assert_eq!(state(&lab), Some((FencingState::Stopping, String::new())));
}

#[rstest]
#[case::the_node_is_ready(false, false, true)]
#[case::no_pod_is_left(false, true, false)]
#[case::the_pods_have_left_a_stopped_vm(true, true, false)]
#[case::a_user_started_the_stopped_vm(true, true, true)]
fn the_record_of_a_stop_ends_with_its_cause(#[case] stopped: bool, #[case] pods_left: bool, #[case] is_ready: bool) {
    let mut lab = match stopped {
        true => deleted(EvictionOutcome::Accepted),
        false => kept(Fencing::StopVm),
    };
    next(&mut lab);
    lab.view.answers.clear();
    assert!(state(&lab).is_some());
    if pods_left {
        lab.view.pods = Some(Vec::new());
    }
    if is_ready {
        // Not healthy, so the machine stays Failed.
        lab.reports(vec![condition("Ready", "True"), condition("DiskPressure", "True")]);
    }
    assert_eq!(called(&next(&mut lab)), None);
    assert_eq!(state(&lab).is_some(), stopped && !is_ready);
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
