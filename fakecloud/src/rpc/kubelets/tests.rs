//! Control calls for kubelets, through the generated client on the server struct.

use clock::{Clock, Seed};
use mcm_driver::Driver;
use mcm_driver::client::GrpcDriver;
use rstest::rstest;
use tonic::Code;

use super::*;
use crate::model::test_request as request;
use crate::proto::cloud_client::CloudClient;
use crate::proto::cloud_server::CloudServer;
use crate::proto::vm_reference::By;
use crate::{Config, ControlService, Fakecloud};

const NOTHING: proto::Nothing = proto::Nothing {};

/// A cloud with a running VM for the machine `a`, without running kubelets.
async fn world() -> (Fakecloud, CloudClient<CloudServer<ControlService>>) {
    let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
    let cloud = Fakecloud::new(Config::default(), clock, Seed::new(1));
    GrpcDriver::new(cloud.driver_server())
        .create_machine(request("a"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let control = CloudClient::new(cloud.control_server());
    (cloud, control)
}

fn machine(name: &str) -> Option<proto::VmReference> {
    Some(proto::VmReference {
        by: Some(By::Machine(name.to_owned())),
    })
}

fn breaking(fault: Fault) -> proto::BreakKubeletRequest {
    proto::BreakKubeletRequest {
        vm: machine("a"),
        fault: Some(proto::KubeletFault { fault: Some(fault) }),
        lasts_nanos: None,
    }
}

fn flapping(period_nanos: u64, up_percent: u32, down: i32) -> Fault {
    Fault::Flapping(proto::Flapping {
        period_nanos,
        up_percent,
        down,
    })
}

async fn listed(control: &mut CloudClient<CloudServer<ControlService>>, pattern: &str) -> Vec<proto::Kubelet> {
    let pattern = proto::ListKubeletsRequest {
        machine: pattern.to_owned(),
    };
    control.list_kubelets(pattern).await.unwrap().into_inner().kubelets
}

#[rstest]
#[case::stopped(Fault::Stopped(NOTHING), KubeletFault::Stopped)]
#[case::partitioned(Fault::Partitioned(NOTHING), KubeletFault::Partitioned)]
#[case::frozen(Fault::Frozen(NOTHING), KubeletFault::Frozen)]
#[case::flapping(
    flapping(60_000_000_000, 25, KubeletState::Frozen.into()),
    KubeletFault::Flapping(Flapping { period: Duration::from_secs(60), up_percent: 25, down: Down::Frozen })
)]
#[case::flapping_stopped(
    flapping(1_000_000_000, 99, KubeletState::Stopped.into()),
    KubeletFault::Flapping(Flapping { period: Duration::from_secs(1), up_percent: 99, down: Down::Stopped })
)]
#[case::slow(Fault::SlowNanos(1_500_000_000), KubeletFault::Slow(Duration::from_millis(1500)))]
#[case::slow_recovery(Fault::SlowRecoveryNanos(2), KubeletFault::SlowRecovery(Duration::from_nanos(2)))]
#[case::early_clock(Fault::ClockSkewNanos(-7), KubeletFault::ClockSkew(SignedDuration::from_nanos(-7)))]
#[case::zombie(Fault::Zombie(NOTHING), KubeletFault::Zombie)]
#[case::take_over(Fault::TakeOver(NOTHING), KubeletFault::TakeOver)]
#[tokio::test(start_paused = true)]
async fn each_fault_is_read_stored_and_returned_unchanged(#[case] message_fault: Fault, #[case] stored: KubeletFault) {
    let (cloud, mut control) = world().await;
    let kubelet = control
        .break_kubelet(breaking(message_fault))
        .await
        .unwrap()
        .into_inner();
    let message = proto::KubeletFault {
        fault: Some(message_fault),
    };
    assert_eq!((kubelet.node.as_str(), &kubelet.faults), ("a", &vec![message]));
    let faults = cloud.step(|cloud, _| cloud.vms().map(|vm| vm.kubelet.list()).collect::<Vec<_>>());
    assert_eq!(faults, [vec![stored]]);
    assert_eq!(listed(&mut control, "").await, [kubelet]);
}

#[tokio::test(start_paused = true)]
async fn flapping_uses_a_partition_by_default() {
    let (_cloud, mut control) = world().await;
    let message_fault = breaking(flapping(60_000_000_000, 50, 0));
    let kubelet = control.break_kubelet(message_fault).await.unwrap().into_inner();
    let read = flapping(60_000_000_000, 50, KubeletState::Partitioned.into());
    assert_eq!(kubelet.faults, [proto::KubeletFault { fault: Some(read) }]);
    // After half a period it is up again.
    assert_eq!(kubelet.changes_unix_nanos, 1_800_000_033_000_000_000);
}

#[rstest]
#[case::none(None, "fault: none is set")]
#[case::empty(Some(proto::KubeletFault { fault: None }), "fault: none is set")]
#[case::down_is_up(Some(flapping(60, 50, KubeletState::Up.into()).into()), "fault.flapping.down")]
#[case::down_is_unknown(Some(flapping(60, 50, 99).into()), "fault.flapping.down")]
#[case::short_period(Some(flapping(1, 50, 0).into()), "period must be at least 1s")]
#[case::always_up(Some(flapping(60_000_000_000, 100, 0).into()), "upPercent is 100")]
#[case::not_slow(Some(Fault::SlowNanos(0).into()), "delay must be longer than zero")]
#[case::no_recovery(Some(Fault::SlowRecoveryNanos(0).into()), "delay must be longer than zero")]
#[case::no_skew(Some(Fault::ClockSkewNanos(0).into()), "by must not be zero")]
#[tokio::test(start_paused = true)]
async fn an_invalid_fault_is_rejected_without_an_effect(
    #[case] fault: Option<proto::KubeletFault>,
    #[case] message_fault: &str,
) {
    let (cloud, mut control) = world().await;
    let last = cloud.step(|cloud, _| cloud.log().last());
    let bad = proto::BreakKubeletRequest {
        vm: machine("a"),
        fault,
        lasts_nanos: None,
    };
    let error = control.break_kubelet(bad).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains(message_fault), "{}", error.message());
    assert_eq!(cloud.step(|cloud, _| cloud.log().last()), last);
    assert!(listed(&mut control, "").await[0].faults.is_empty());
}

impl From<Fault> for proto::KubeletFault {
    fn from(fault: Fault) -> Self {
        Self { fault: Some(fault) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_ends_after_its_duration_which_must_be_positive() {
    let (cloud, mut control) = world().await;
    let never = proto::BreakKubeletRequest {
        lasts_nanos: Some(0),
        ..breaking(Fault::Frozen(NOTHING))
    };
    let error = control.break_kubelet(never).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("lasts"), "{}", error.message());
    let short = proto::BreakKubeletRequest {
        lasts_nanos: Some(5_000_000_000),
        ..breaking(Fault::Frozen(NOTHING))
    };
    control.break_kubelet(short).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(listed(&mut control, "").await[0].faults.len(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(listed(&mut control, "").await[0].faults.is_empty());
    let message_fault = cloud.step(|cloud, _| {
        cloud
            .log()
            .after(0)
            .unwrap()
            .last()
            .map(|record| record.operation.clone())
    });
    assert_eq!(message_fault.as_deref(), Some("KubeletMended"));
}

#[tokio::test(start_paused = true)]
async fn some_or_all_faults_are_removed() {
    let (_cloud, mut control) = world().await;
    let faults = [
        Fault::Frozen(NOTHING),
        Fault::SlowNanos(1),
        Fault::SlowRecoveryNanos(1),
        Fault::ClockSkewNanos(1),
        Fault::Zombie(NOTHING),
        Fault::TakeOver(NOTHING),
    ];
    for fault in faults {
        control.break_kubelet(breaking(fault)).await.unwrap();
    }
    let mending = |kinds: &[i32]| proto::MendKubeletRequest {
        vm: machine("a"),
        kinds: kinds.to_vec(),
    };
    // A kind with each number, starting with the last.
    for kind in (3..=6).rev() {
        let left = control
            .mend_kubelet(mending(&[kind]))
            .await
            .unwrap()
            .into_inner()
            .faults;
        let expected: Vec<proto::KubeletFault> = faults.into_iter().take(kind as usize - 1).map(Into::into).collect();
        assert_eq!(left, expected);
    }
    for kind in [0, 7] {
        let error = control.mend_kubelet(mending(&[1, kind])).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            error.message().contains(&format!("kinds: {kind}")),
            "{}",
            error.message()
        );
    }
    assert_eq!(
        listed(&mut control, "").await[0].faults.len(),
        2,
        "an invalid kind removes nothing"
    );
    assert!(
        control
            .mend_kubelet(mending(&[]))
            .await
            .unwrap()
            .into_inner()
            .faults
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn conditions_are_set_listed_and_cleared() {
    let (_cloud, mut control) = world().await;
    let condition = proto::NodeCondition {
        r#type: "KernelDeadlock".to_owned(),
        status: "True".to_owned(),
        reason: "TaskHung".to_owned(),
        message: "a task hangs".to_owned(),
    };
    let setting = |condition: Option<proto::NodeCondition>| proto::SetNodeConditionRequest {
        vm: machine("a"),
        condition,
    };
    let clearing = proto::ClearNodeConditionRequest {
        vm: machine("a"),
        r#type: "KernelDeadlock".to_owned(),
    };
    control
        .set_node_condition(setting(Some(condition.clone())))
        .await
        .unwrap();
    assert_eq!(listed(&mut control, "").await[0].conditions, vec![condition.clone()]);
    let cleared = control
        .clear_node_condition(clearing.clone())
        .await
        .unwrap()
        .into_inner();
    assert!(cleared.conditions.is_empty());

    let no_status = proto::NodeCondition {
        status: "true".to_owned(),
        ..condition.clone()
    };
    let no_type = proto::NodeCondition {
        r#type: String::new(),
        ..condition
    };
    for (bad, message_fault) in [
        (None, "condition: is missing"),
        (Some(no_status), "status"),
        (Some(no_type), "type"),
    ] {
        let error = control.set_node_condition(setting(bad)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains(message_fault), "{}", error.message());
    }
    let error = control.clear_node_condition(clearing).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("KernelDeadlock"), "{}", error.message());
}

#[tokio::test(start_paused = true)]
async fn kubelets_are_listed_by_machine_and_are_off_while_none_run() {
    let (cloud, mut control) = world().await;
    let driver = GrpcDriver::new(cloud.driver_server());
    driver.create_machine(request("b")).await.unwrap();
    let nodes = |kubelets: Vec<proto::Kubelet>| kubelets.into_iter().map(|one| one.node).collect::<Vec<_>>();
    assert_eq!(nodes(listed(&mut control, "").await), ["a", "b"]);
    assert_eq!(nodes(listed(&mut control, "default/b*").await), ["b"]);
    assert!(listed(&mut control, "elsewhere/*").await.is_empty());
    let kubelet = listed(&mut control, "a").await.remove(0);
    assert_eq!(
        (kubelet.stage.as_str(), kubelet.state()),
        ("off", KubeletState::Stopped)
    );
    assert_eq!(kubelet.vm_state(), proto::VmState::Running);
    driver.delete_machine(request("a")).await.unwrap();
    assert_eq!(nodes(listed(&mut control, "").await), ["b"], "terminated VMs have none");
    let gone = control
        .break_kubelet(breaking(Fault::Zombie(NOTHING)))
        .await
        .unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    let unknown = proto::BreakKubeletRequest {
        vm: None,
        ..breaking(Fault::Zombie(NOTHING))
    };
    assert_eq!(
        control.break_kubelet(unknown).await.unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[tokio::test(start_paused = true)]
async fn no_container_is_killed_while_no_kubelets_run() {
    let (_cloud, mut control) = world().await;
    let killing = proto::KillContainerRequest {
        namespace: "default".to_owned(),
        pod: "web".to_owned(),
        ..proto::KillContainerRequest::default()
    };
    let error = control.kill_container(killing).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
}

#[rstest]
#[case::no_pod(PodError::NoPod("default".to_owned(), "web".to_owned()), Code::NotFound)]
#[case::no_container(
    PodError::NoContainer { pod: "web".to_owned(), container: "x".to_owned(), known: "a, b".to_owned() },
    Code::NotFound
)]
#[case::several(PodError::Several("web".to_owned(), "a, b".to_owned()), Code::InvalidArgument)]
#[case::not_running(PodError::NotRunning("web".to_owned(), "a".to_owned()), Code::FailedPrecondition)]
fn errors_of_killing_a_container_have_codes(#[case] error: PodError, #[case] code: Code) {
    let status = pod_error(&error);
    assert_eq!(status.code(), code);
    assert!(status.message().contains("web"), "{}", status.message());
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_shows_its_state_and_pending_commands() {
    let (cloud, mut control) = world().await;
    control
        .break_kubelet(breaking(Fault::Partitioned(NOTHING)))
        .await
        .unwrap();
    let view = KubeletView {
        stage: "registered",
        availability: Availability::Up,
        changes_at: Some(Timestamp::from_second(1_800_000_100).unwrap()),
        recovering: true,
        node_uid: "uid".to_owned(),
        refused: "no such token".to_owned(),
        pods: 3,
    };
    let shown = cloud.step(|cloud, now| cloud.vms().next().map(|vm| kubelet(vm, Some(view), now)).unwrap());
    assert_eq!(
        shown.state(),
        KubeletState::Partitioned,
        "although it has not received it yet"
    );
    assert_eq!(
        (shown.stage.as_str(), shown.node_uid.as_str(), shown.refused.as_str()),
        ("registered", "uid", "no such token")
    );
    assert_eq!((shown.recovering, shown.pods), (true, 3));
    assert_eq!(shown.changes_unix_nanos, 1_800_000_100_000_000_000);
}
