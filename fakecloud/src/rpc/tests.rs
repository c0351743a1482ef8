//! Both contracts in process, through the generated clients on the server structs.

use std::time::Duration;

use clock::{Clock, Seed};
use futures::StreamExt;
use jiff::Timestamp;
use mcm_api::cloud::Code;
use mcm_driver::Driver;
use mcm_driver::client::GrpcDriver;

use crate::model::test_request as request;
use crate::proto::cloud_client::CloudClient;
use crate::proto::cloud_server::CloudServer;
use crate::proto::{self, vm_reference::By};
use crate::{Config, ControlService, Fakecloud};

fn world(config: Config) -> (Fakecloud, impl Driver, CloudClient<CloudServer<ControlService>>) {
    let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
    let cloud = Fakecloud::new(config, clock, Seed::new(1));
    let driver = GrpcDriver::new(cloud.driver_server());
    let control = CloudClient::new(cloud.control_server());
    (cloud, driver, control)
}

fn machine(name: &str) -> proto::VmReference {
    proto::VmReference {
        by: Some(By::Machine(name.to_owned())),
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_created_watched_killed_and_deleted() {
    let (_cloud, driver, mut control) = world(Config::default());
    let vm = driver.create_machine(request("a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let listed = control
        .list_vms(proto::ListVmsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .vms;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].provider_id.as_str(), listed[0].state()),
        (vm.provider_id.as_deref().unwrap(), proto::VmState::Running)
    );
    assert_eq!(listed[0].machine_uid, "uid-of-a");
    let killed = control.kill_vm(machine("a")).await.unwrap().into_inner();
    assert_eq!(killed.state(), proto::VmState::Stopped);
    driver.delete_machine(request("a")).await.unwrap();
    assert_eq!(
        driver.get_machine_status(request("a")).await.unwrap_err().code,
        Code::NotFound
    );
    let gone = control.get_vm(machine("a")).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::NotFound);
    let by_id = proto::VmReference {
        by: Some(By::ProviderId(vm.provider_id.unwrap().into())),
    };
    assert_eq!(
        control.get_vm(by_id).await.unwrap().into_inner().state(),
        proto::VmState::Terminated
    );
}

#[tokio::test(start_paused = true)]
async fn a_fault_returns_its_code_and_counts_its_hits() {
    let (cloud, driver, mut control) = world(Config::default());
    let fault = proto::Fault {
        operation: proto::Operation::Create.into(),
        times: Some(1),
        code: Code::ResourceExhausted.number(),
        message: "no capacity".to_owned(),
        latency_nanos: 5_000_000_000,
        ..proto::Fault::default()
    };
    let added = control.add_fault(fault).await.unwrap().into_inner();
    let before = cloud.clock().now();
    let error = driver.create_machine(request("a")).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::ResourceExhausted, "no capacity")
    );
    assert_eq!(cloud.clock().now().duration_since(before).as_secs(), 5);
    driver.create_machine(request("a")).await.unwrap();
    let faults = control
        .list_faults(proto::ListFaultsRequest {})
        .await
        .unwrap()
        .into_inner()
        .faults;
    assert_eq!((faults[0].seen, faults[0].hits), (2, 1));
    let removed = control
        .remove_fault(proto::RemoveFaultRequest { id: added.id })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(removed.hits, 1);
}

#[tokio::test(start_paused = true)]
async fn every_machine_code_survives_the_round_trip() {
    let (_cloud, driver, mut control) = world(Config::default());
    for code in Code::ALL.into_iter().filter(|code| *code != Code::Ok) {
        let fault = proto::Fault {
            id: "f".to_owned(),
            code: code.number(),
            ..proto::Fault::default()
        };
        control.add_fault(fault).await.unwrap();
        assert_eq!(driver.get_machine_status(request("a")).await.unwrap_err().code, code);
        control
            .remove_fault(proto::RemoveFaultRequest { id: "f".to_owned() })
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_is_read_in_pages_and_followed_live() {
    let (_cloud, driver, mut control) = world(Config::default());
    let mut stream = control
        .watch(proto::WatchRequest { after: 0 })
        .await
        .unwrap()
        .into_inner();
    let follow = async {
        let mut operations = Vec::new();
        while operations.last().is_none_or(|last| last != "KillVm") {
            let record = stream.next().await.unwrap().unwrap();
            operations.push(record.operation);
        }
        operations
    };
    let act = async {
        driver.create_machine(request("a")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        control.clone().kill_vm(machine("a")).await.unwrap();
    };
    let (operations, ()) = tokio::join!(follow, act);
    let expected = [
        "NicCreated",
        "DiskCreated",
        "Pending",
        "CreateMachine",
        "Running",
        "KillVm",
    ];
    assert_eq!(operations, expected);
    let page = proto::AuditRequest {
        after: 1,
        limit: 2,
        machine: "default/*".to_owned(),
    };
    let page = control.audit(page).await.unwrap().into_inner();
    assert_eq!(
        page.records.iter().map(|record| record.sequence).collect::<Vec<_>>(),
        [2, 3]
    );
    assert_eq!((page.next_after, page.more), (3, true));
}

#[tokio::test(start_paused = true)]
async fn holds_and_the_duplicate_switch_are_set_at_run_time() {
    let (_cloud, driver, mut control) = world(Config::default());
    let hold = proto::HoldRequest {
        pattern: "*".to_owned(),
    };
    control.hold(hold.clone()).await.unwrap();
    let two = proto::DuplicateCreates::Two;
    let request_two = proto::SetDuplicateCreatesRequest {
        duplicate_creates: two.into(),
    };
    let info = control.set_duplicate_creates(request_two).await.unwrap().into_inner();
    assert_eq!((info.duplicate_creates(), info.holds), (two, vec!["*".to_owned()]));
    driver.create_machine(request("a")).await.unwrap();
    driver.create_machine(request("a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let several = control.get_vm(machine("a")).await.unwrap_err();
    assert_eq!(several.code(), tonic::Code::FailedPrecondition);
    let released = control.release(hold).await.unwrap().into_inner();
    assert!(released.holds.is_empty());
    assert_eq!(
        released
            .vms
            .iter()
            .filter(|vm| vm.state() == proto::VmState::Running)
            .count(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_rejected_without_an_effect() {
    let (cloud, _driver, mut control) = world(Config::default());
    let invalid = tonic::Code::InvalidArgument;
    let bad_code = proto::Fault {
        code: 99,
        ..proto::Fault::default()
    };
    assert_eq!(control.add_fault(bad_code).await.unwrap_err().code(), invalid);
    let bad_operation = proto::Fault {
        operation: 99,
        code: 2,
        ..proto::Fault::default()
    };
    assert_eq!(control.add_fault(bad_operation).await.unwrap_err().code(), invalid);
    assert_eq!(
        control
            .kill_vm(proto::VmReference { by: None })
            .await
            .unwrap_err()
            .code(),
        invalid
    );
    assert_eq!(
        control.hold(proto::HoldRequest::default()).await.unwrap_err().code(),
        invalid
    );
    let unset = proto::SetDuplicateCreatesRequest { duplicate_creates: 0 };
    assert_eq!(control.set_duplicate_creates(unset).await.unwrap_err().code(), invalid);
    assert_eq!(cloud.step(|cloud, _| cloud.log().last()), 0);
}

#[tokio::test(start_paused = true)]
async fn without_kubelets_vms_still_boot_on_time() {
    let (cloud, driver, _control) = world(Config::default());
    let token = tokio_util::sync::CancellationToken::new();
    let act = async {
        driver.create_machine(request("a")).await.unwrap();
        let mut changes = cloud.changes();
        changes.wait_for(|last| *last == 5).await.unwrap();
        token.cancel();
    };
    tokio::join!(cloud.run_without_kubelets(token.clone()), act);
    let operation = cloud.step(|cloud, _| {
        cloud
            .log()
            .after(4)
            .unwrap()
            .next()
            .map(|record| record.operation.clone())
    });
    assert_eq!(operation.as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn nodes_without_machines_are_created_by_one_call() {
    let (_cloud, _driver, mut control) = world(Config::default());
    let mut request = proto::CreateNodesRequest {
        count: 5_000,
        name_prefix: "foreign".to_owned(),
        zones: vec!["local-1".to_owned(), "local-2".to_owned()],
        machine_type: "small".to_owned(),
        taints: vec![proto::Taint {
            key: "dedicated".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..proto::Taint::default()
        }],
        ..proto::CreateNodesRequest::default()
    };
    let nodes = control.create_nodes(request.clone()).await.unwrap().into_inner().nodes;
    assert_eq!((nodes.len(), nodes[4_999].as_str()), (5_000, "foreign-4999"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let list = control.list_vms(proto::ListVmsRequest::default()).await.unwrap();
    let vms = list.into_inner().vms;
    assert_eq!(vms.len(), 5_000);
    for (vm, zone) in vms.iter().zip(["local-1", "local-2"].into_iter().cycle()) {
        assert_eq!((vm.zone.as_str(), vm.state()), (zone, proto::VmState::Running));
        assert!(vm.machine_namespace.is_empty() && vm.machine_class.is_empty() && vm.tags.is_empty());
    }
    request.zones = vec![String::new()];
    let error = control.create_nodes(request).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    assert!(error.message().starts_with("zones[0]: "), "{error}");
}
