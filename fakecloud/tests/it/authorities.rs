//! The driver API and the control API have client authorities of their own: a certificate opens one of them.

use std::path::Path;

use fakecloud::certificates::{Certificates, Subject};
use fakecloud::proto::ListFaultsRequest;
use fakecloud::proto::cloud_client::CloudClient;
use mcm_driver::Driver;
use mcm_driver::channel::channel;
use mcm_driver::client::GrpcDriver;
use mcm_driver::tls::{Tls, TlsFiles};
use tokio::process::Command;
use tonic::{Code, Status};

use crate::process::{LIMIT, Process};

/// A fake cloud with certificates in a folder.
struct Cloud {
    folder: tempfile::TempDir,
    process: Process,
}

impl Cloud {
    async fn start(has_control_authority: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let subject = Subject {
            name: "fakecloud".to_owned(),
            namespace: "shoot".to_owned(),
            days: 1,
        };
        let certificates = Certificates::issue(subject, clock::Clock::wall().now()).unwrap();
        certificates.write(folder.path()).unwrap();
        let flag = |flag: &str, file: &str| format!("--{flag}={}", folder.path().join(file).display());
        let mut arguments = vec![
            "--control-address=127.0.0.1:0".to_owned(),
            flag("tls-cert", "server.crt"),
            flag("tls-key", "server.key"),
            flag("tls-client-ca", "ca.crt"),
        ];
        if has_control_authority {
            arguments.push(flag("tls-control-ca", "control-ca.crt"));
        }
        let process = Process::start_with(&arguments).await;
        Self { folder, process }
    }

    fn driver_address(&self) -> String {
        format!("grpcs://{}", self.process.address)
    }

    fn control_address(&self) -> &str {
        self.process.control_address.as_deref().unwrap()
    }

    /// The certificate of `client` or `control`.
    fn tls(&self, side: &str) -> Tls {
        tls(self.folder.path(), side)
    }
}

fn tls(folder: &Path, side: &str) -> Tls {
    Tls {
        files: TlsFiles {
            ca: folder.join("ca.crt"),
            cert: folder.join(format!("{side}.crt")),
            key: folder.join(format!("{side}.key")),
        },
        server_name: None,
    }
}

/// A call of the control API.
async fn control(address: &str, tls: Option<Tls>) -> Result<(), Status> {
    let mut client = CloudClient::new(channel(address, tls).unwrap());
    client.list_faults(ListFaultsRequest::default()).await.map(|_| ())
}

#[tokio::test]
async fn each_certificate_opens_its_own_api() {
    let cloud = Cloud::start(true).await;
    let driver = GrpcDriver::connect_tls(&cloud.driver_address(), cloud.tls("client")).unwrap();
    driver.get_volume_ids(Vec::new()).await.unwrap();
    control(cloud.control_address(), Some(cloud.tls("control")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_machine_controller_cannot_inject_faults() {
    let cloud = Cloud::start(true).await;
    let refusal = control(cloud.control_address(), Some(cloud.tls("client")))
        .await
        .unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    assert!(
        refusal.message().contains("rejects the client certificate"),
        "{refusal}"
    );
    // Its own address does not serve the control API.
    let refusal = control(&cloud.driver_address(), Some(cloud.tls("client")))
        .await
        .unwrap_err();
    assert_eq!(refusal.code(), Code::Unimplemented, "{refusal}");
}

#[tokio::test]
async fn a_control_client_cannot_create_vms_as_a_machine_controller() {
    let cloud = Cloud::start(true).await;
    for (address, expected) in [
        (cloud.driver_address(), "rejects the client certificate"),
        (cloud.control_address().to_owned(), "Unimplemented"),
    ] {
        let driver = GrpcDriver::connect_tls(&address, cloud.tls("control")).unwrap();
        let refusal = driver.get_volume_ids(Vec::new()).await.unwrap_err();
        assert!(refusal.to_string().contains(expected), "{address}: {refusal}");
    }
}

#[tokio::test]
async fn without_a_control_authority_the_control_api_is_on_loopback_in_plain_text() {
    let cloud = Cloud::start(false).await;
    assert!(cloud.control_address().starts_with("grpc://127.0.0.1:"));
    control(cloud.control_address(), None).await.unwrap();
    let refusal = control(&cloud.driver_address(), Some(cloud.tls("client")))
        .await
        .unwrap_err();
    assert_eq!(refusal.code(), Code::Unimplemented, "{refusal}");
}

#[tokio::test]
async fn a_command_that_calls_the_driver_address_names_the_flag_of_the_other_one() {
    let cloud = Cloud::start(true).await;
    let Tls { files, .. } = cloud.tls("client");
    let flag = |flag: &str, file: &Path| format!("--{flag}={}", file.display());
    let output = Command::new(env!("CARGO_BIN_EXE_fakecloud"))
        .args(["faults", "list", "--cloud", &cloud.driver_address()])
        .args([
            flag("tls-ca", &files.ca),
            flag("tls-cert", &files.cert),
            flag("tls-key", &files.key),
        ])
        .output();
    let output = tokio::time::timeout(LIMIT, output).await.unwrap().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("--control-address"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}
