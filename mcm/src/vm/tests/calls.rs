//! The calls of each command against a driver that answers as the test says.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::{Code, DriverError, MachineClass, MachineName, NodeName, ProviderId, VmIdentity};
use mcm_driver::client::GrpcDriver;
use mcm_driver::server::DriverService;
use mcm_driver::{Driver, MachineRequest};
use parking_lot::Mutex;
use rstest::rstest;

use super::*;
use crate::vm::calls::{Outcome, perform};
use crate::vm::error::VmError;
use crate::vm::input::{Action, job};

/// Records calls with the machine's provider id, and fails where the test says.
#[derive(Debug)]
struct Recorder {
    calls: &'static Mutex<Vec<String>>,
    failure: Option<(&'static str, DriverError)>,
    stalls: bool,
}

impl Recorder {
    async fn call(&self, name: &'static str, provider_id: &str) -> Result<VmIdentity, DriverError> {
        self.calls
            .lock()
            .push(format!("{name} {provider_id}").trim().to_owned());
        if self.stalls {
            std::future::pending::<()>().await;
        }
        match &self.failure {
            Some((failing, error)) if *failing == name => Err(error.clone()),
            _ => Ok(vm()),
        }
    }
}

fn vm() -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new("fake:///1"),
        node_name: NodeName::new("node-1"),
        ..VmIdentity::default()
    }
}

#[async_trait]
impl Driver for Recorder {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call("create", &request.machine.spec.provider_id).await
    }
    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call("initialize", &request.machine.spec.provider_id).await
    }
    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        self.call("delete", &request.machine.spec.provider_id)
            .await
            .map(|_| None)
    }
    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call("status", &request.machine.spec.provider_id).await
    }
    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call("stop", &request.machine.spec.provider_id).await
    }
    async fn list_machines(
        &self,
        _: MachineClass,
        _: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        self.call("list", "").await?;
        let vm = |id: &str, name: &str| Some((ProviderId::new(id)?, MachineName::new(name)?));
        Ok([vm("fake:///2", "a"), vm("fake:///1", "b")]
            .into_iter()
            .flatten()
            .collect())
    }
    async fn get_volume_ids(&self, _: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        Ok(Vec::new())
    }
}

/// The outcome, or the line of the error, and the calls.
async fn performed(
    action: Action,
    sources: &Sources,
    failure: Option<(&'static str, DriverError)>,
) -> (Result<Outcome, String>, Vec<String>) {
    let calls: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    let recorder = Recorder {
        calls,
        failure,
        stalls: false,
    };
    // The wire form is part of the test.
    let driver = GrpcDriver::new(DriverService::new(recorder).into_server());
    let result = perform(&driver, job(action, sources).unwrap(), None).await;
    let result = result.map_err(|error| {
        assert_eq!(error.exit_code(), 1);
        error.to_string()
    });
    (result, calls.lock().clone())
}

fn error(code: Code) -> DriverError {
    DriverError::new(code, "it broke")
}

fn without_uid(machine: &str) -> String {
    machine.replace(", uid: u-1", "").replace("providerID: fake:///m-1", "")
}

#[rstest]
#[case::create(Action::Create, sources("m-1"), &["create"])]
#[case::status(Action::Status, sources("m-1"), &["status"])]
#[case::list(Action::List, sources("m-1"), &["list"])]
#[case::initialize(Action::Initialize, sources("m-1"), &["status", "initialize fake:///1"])]
#[case::initialize_with_id(Action::Initialize, with_machine_file(MACHINE), &["initialize fake:///m-1"])]
#[case::stop(Action::Stop, sources("m-1"), &["status", "stop fake:///1"])]
#[case::stop_with_id(Action::Stop, with_machine_file(MACHINE), &["stop fake:///m-1"])]
#[case::delete(Action::Delete, sources("m-1"), &["status", "delete fake:///1"])]
#[case::delete_with_id(Action::Delete, with_machine_file(MACHINE), &["delete fake:///m-1"])]
#[case::delete_with_uid_only(Action::Delete, with_machine_file(&MACHINE.replace("providerID: fake:///m-1", "")), &["delete"])]
#[case::delete_of_a_file_without_both(Action::Delete, with_machine_file(&without_uid(MACHINE)), &["status", "delete fake:///1"])]
#[tokio::test]
async fn a_command_makes_its_calls(#[case] action: Action, #[case] sources: Sources, #[case] expected: &[&str]) {
    let (outcome, calls) = performed(action, &sources, None).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(calls, expected);
}

#[rstest]
#[case::create(
    Action::Create,
    "create",
    error(Code::ResourceExhausted),
    "CreateMachine failed: ResourceExhausted: it broke"
)]
#[case::status(
    Action::Status,
    "status",
    error(Code::NotFound),
    "GetMachineStatus failed: NotFound: it broke"
)]
#[case::uninitialized(
    Action::Status,
    "status",
    DriverError { vm: Some(Box::new(vm())), ..error(Code::Uninitialized) },
    "GetMachineStatus failed: Uninitialized: it broke; the VM is fake:///1"
)]
#[case::list(
    Action::List,
    "list",
    error(Code::Unimplemented),
    "ListMachines failed: Unimplemented: it broke"
)]
#[case::initialize(
    Action::Initialize,
    "initialize",
    error(Code::Internal),
    "InitializeMachine failed: Internal: it broke"
)]
#[case::stop(
    Action::Stop,
    "stop",
    error(Code::Unimplemented),
    "StopMachine failed: Unimplemented: it broke"
)]
#[case::nothing_to_initialize(
    Action::Initialize,
    "status",
    error(Code::NotFound),
    "GetMachineStatus failed: NotFound: it broke"
)]
#[case::delete(
    Action::Delete,
    "delete",
    error(Code::Aborted),
    "DeleteMachine failed: Aborted: it broke"
)]
#[case::delete_without_status_call(
    Action::Delete,
    "status",
    error(Code::Unimplemented),
    "GetMachineStatus failed: Unimplemented: it broke; give the VM's --provider-id, which mcm vm list shows"
)]
#[case::delete_of_several(
    Action::Delete,
    "status",
    error(Code::OutOfRange),
    "GetMachineStatus failed: OutOfRange: it broke; give the VM's --provider-id, which mcm vm list shows"
)]
#[case::lines_and_credentials(
    Action::Create,
    "create",
    DriverError::new(Code::Unauthenticated, format!("rejected:\n  token={PLANTED}\n")),
    "CreateMachine failed: Unauthenticated: rejected: token=<token>"
)]
#[tokio::test]
async fn a_failed_call_is_one_line_with_its_code(
    #[case] action: Action,
    #[case] failing: &'static str,
    #[case] failure: DriverError,
    #[case] expected: &str,
) {
    let (outcome, _) = performed(action, &sources("m-1"), Some((failing, failure))).await;
    assert_eq!(outcome.unwrap_err(), expected);
}

#[tokio::test]
async fn a_deletion_without_a_vm_succeeds() {
    let (outcome, calls) = performed(Action::Delete, &sources("m-1"), Some(("status", error(Code::NotFound)))).await;
    let expected = Outcome::Deleted {
        machine: "m-1".to_owned(),
        provider_id: None,
        last_known_state: None,
    };
    assert_eq!((outcome, calls), (Ok(expected), vec!["status".to_owned()]));
}

#[tokio::test]
async fn an_uninitialized_vm_is_initialized_and_deleted() {
    let failure = DriverError {
        vm: Some(Box::new(vm())),
        ..error(Code::Uninitialized)
    };
    for (action, call) in [
        (Action::Initialize, "initialize fake:///1"),
        (Action::Delete, "delete fake:///1"),
    ] {
        let (outcome, calls) = performed(action, &sources("m-1"), Some(("status", failure.clone()))).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(calls, ["status", call]);
    }
}

#[rstest]
#[case::default_of_create(Action::Create, None, "10m0s")]
#[case::default_of_others(Action::Status, None, "2m0s")]
#[case::flag(Action::Status, Some(Duration::from_secs(5)), "5s")]
#[tokio::test(start_paused = true)]
async fn a_stalled_call_ends_at_its_timeout(
    #[case] action: Action,
    #[case] timeout: Option<Duration>,
    #[case] expected: &str,
) {
    let recorder = Recorder {
        calls: Box::leak(Box::default()),
        failure: None,
        stalls: true,
    };
    let result = perform(&recorder, job(action, &sources("m-1")).unwrap(), timeout).await;
    let Err(VmError::Call { error, .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(error.code, Code::DeadlineExceeded);
    assert!(error.message.contains(&format!("within {expected}: ")), "{error}");
}
