//! Preflight checks: missing requirements are reported in one line, within the deadline.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::{MachineClass, MachineName, ProviderId, VmIdentity};
use mcm_driver::MachineRequest;
use rstest::rstest;

use super::*;
use crate::testing::TestServer;

fn clock() -> Clock {
    Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_serves_the_kinds_passes() {
    let server = TestServer::serving(&["machines", "machineclasses"]);
    check_clusters(
        &server.client(),
        Some(&server.client()),
        &[Controller::Machine, Controller::Safety],
        &clock(),
    )
    .await
    .unwrap();
    let agents: Vec<String> = server.agents().into_iter().collect();
    let expected = concat!("machine-controller-manager/", env!("CARGO_PKG_VERSION"), " (preflight)");
    assert_eq!(
        agents,
        [expected],
        "every request has the user agent of the preflight checks"
    );
}

#[rstest]
#[case::class(&[Controller::Machine], &["machines"], &["machineclasses"])]
#[case::owners(&[Controller::Machine, Controller::Set], &["machines", "machineclasses"], &["machinesets", "machinedeployments"])]
#[case::health_checks(
    &[Controller::Machine, Controller::MachineHealthCheck],
    &["machines", "machineclasses"],
    &["machinehealthchecks"]
)]
#[case::only_health_checks(&[Controller::MachineHealthCheck], &["machines"], &["machinehealthchecks"])]
#[tokio::test(start_paused = true)]
async fn missing_kinds_are_reported_with_the_fix(
    #[case] controllers: &[Controller],
    #[case] served: &[&str],
    #[case] missing: &[&str],
) {
    let error = check_clusters(&TestServer::serving(served).client(), None, controllers, &clock())
        .await
        .unwrap_err()
        .to_string();
    let all = [
        "machineclasses",
        "machinesets",
        "machinedeployments",
        "machinehealthchecks",
    ];
    let named: Vec<&str> = all.into_iter().filter(|name| error.contains(name)).collect();
    assert_eq!(named, missing, "{error}");
    assert!(error.contains("mcm crds"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_fails_the_check_after_twenty_seconds() {
    let (server, clock) = (TestServer::serving(&[]), clock());
    server.set_down(true);
    let started = clock.now();
    let error = check_clusters(&server.client(), None, &[Controller::Machine], &clock)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("control") && error.contains("within 20 s") && error.contains("connection was closed"),
        "{error}"
    );
    assert_eq!(clock.now().duration_since(started).as_secs(), 20);
}

/// A driver that fails every call with this code.
#[derive(Debug)]
struct Always(Code);

impl Always {
    fn error<T>(&self) -> Result<T, DriverError> {
        Err(DriverError::new(self.0, "connection refused"))
    }
}

#[async_trait]
impl Driver for Always {
    async fn create_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.error()
    }

    async fn initialize_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.error()
    }

    async fn delete_machine(&self, _: MachineRequest) -> Result<Option<String>, DriverError> {
        self.error()
    }

    async fn get_machine_status(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.error()
    }

    async fn list_machines(
        &self,
        _: MachineClass,
        _: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        self.error()
    }

    async fn get_volume_ids(&self, _: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        self.error()
    }
}

#[tokio::test(start_paused = true)]
async fn an_absent_driver_fails_the_check_after_twenty_seconds() {
    let clock = clock();
    let started = clock.now();
    let error = check_driver(&Always(Code::Unavailable), "grpc://cloud:1", &clock)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("grpc://cloud:1") && error.contains("refused"), "{error}");
    assert_eq!(clock.now().duration_since(started).as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_responds_with_an_error_passes() {
    check_driver(&Always(Code::Unimplemented), "grpc://cloud:1", &clock())
        .await
        .unwrap();
}
