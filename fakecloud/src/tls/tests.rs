//! Drivers and control clients over mutual TLS, with valid and invalid certificates, on loopback sockets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clock::{Clock, Seed};
use jiff::Timestamp;
use mcm_api::cloud::{Code, DriverError};
use mcm_driver::Driver;
use mcm_driver::channel::channel;
use mcm_driver::client::GrpcDriver;
use mcm_driver::tls::Tls;
use rstest::rstest;
use tempfile::TempDir;
use tonic::transport::Server;

use mcm_driver::tls::TlsFiles;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::certificates::{Certificates, Subject};
use crate::proto;
use crate::proto::cloud_client::CloudClient;
use crate::{Config, Fakecloud};

const LONG_AGO: i64 = 1_500_000_000;

fn certificates(now: Timestamp) -> Certificates {
    let subject = Subject {
        name: "fakecloud".to_owned(),
        namespace: "shoot".to_owned(),
        days: 30,
    };
    Certificates::issue(subject, now).unwrap()
}

/// A folder with certificates that are valid now.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    certificates(Clock::wall().now()).write(folder.path()).unwrap();
    folder
}

fn server_files(folder: &Path) -> TlsFiles {
    TlsFiles {
        ca: folder.join("ca.crt"),
        cert: folder.join("server.crt"),
        key: folder.join("server.key"),
    }
}

fn client_files(folder: &Path) -> Tls {
    Tls {
        files: TlsFiles {
            ca: folder.join("ca.crt"),
            cert: folder.join("client.crt"),
            key: folder.join("client.key"),
        },
        server_name: None,
    }
}

/// A fake cloud that serves with the files in that folder until it is dropped.
struct Serving {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(folder: &Path) -> Serving {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
    let incoming = incoming(listener, server_files(folder)).unwrap();
    let server = Server::builder()
        .add_service(cloud.driver_server())
        .add_service(cloud.control_server());
    let task = tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    Serving { address, task }
}

impl Serving {
    fn driver(&self, tls: Tls) -> impl Driver {
        GrpcDriver::connect_tls(&format!("grpcs://{}", self.address), tls).unwrap()
    }

    async fn call(&self, tls: Tls) -> Result<Vec<String>, DriverError> {
        self.driver(tls).get_volume_ids(Vec::new()).await
    }
}

#[tokio::test]
async fn both_contracts_are_answered_over_mutual_tls() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    assert_eq!(
        serving.call(client_files(folder.path())).await.unwrap(),
        Vec::<String>::new()
    );
    let address = format!("grpcs://localhost:{}", serving.address.port());
    let channel = channel(&address, Some(client_files(folder.path()))).unwrap();
    let info = CloudClient::new(channel).info(proto::InfoRequest {}).await.unwrap();
    assert_eq!(info.into_inner().live_vms, 0);
}

fn expired(folder: &Path) -> PathBuf {
    let old = folder.join("old");
    certificates(Timestamp::from_second(LONG_AGO).unwrap())
        .write(&old)
        .unwrap();
    old
}

#[tokio::test]
async fn a_server_of_another_authority_names_the_ca_file() {
    let (ours, theirs) = (folder(), folder());
    let serving = serve(theirs.path()).await;
    let error = serving.call(client_files(ours.path())).await.unwrap_err();
    assert_rejected(&error, &["not signed by the authority", "ca.crt"]);
}

#[tokio::test]
async fn an_expired_server_certificate_is_named() {
    let folder = folder();
    let old = expired(folder.path());
    let serving = serve(&old).await;
    let error = serving.call(client_files(&old)).await.unwrap_err();
    assert_rejected(&error, &["has expired", "certificate file of the server"]);
}

#[tokio::test]
async fn an_error_about_the_server_name_shows_the_name_and_the_flag() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    let tls = Tls {
        server_name: Some("elsewhere".to_owned()),
        ..client_files(folder.path())
    };
    let error = serving.call(tls).await.unwrap_err();
    assert_rejected(
        &error,
        &["elsewhere", "fakecloud.shoot.svc", "--driver-tls-server-name"],
    );
}

#[tokio::test]
async fn the_server_name_can_differ_from_the_address() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    let tls = Tls {
        server_name: Some("fakecloud.shoot.svc".to_owned()),
        ..client_files(folder.path())
    };
    serving.call(tls).await.unwrap();
}

/// A client that trusts the server, with a certificate of another authority or an expired one.
#[rstest]
#[case::of_another_authority(false)]
#[case::expired(true)]
#[tokio::test]
async fn a_rejected_client_certificate_is_named(#[case] is_expired: bool) {
    let (ours, other) = (folder(), folder());
    let other = match is_expired {
        true => expired(ours.path()),
        false => other.path().to_owned(),
    };
    let serving = serve(ours.path()).await;
    let mut tls = client_files(&other);
    tls.files.ca = ours.path().join("ca.crt");
    let error = serving.call(tls).await.unwrap_err();
    assert_rejected(&error, &["rejects the client certificate", "client.crt"]);
}

fn assert_rejected(error: &DriverError, parts: &[&str]) {
    assert_eq!(error.code, Code::Unavailable, "{error}");
    assert!(!error.message.contains('\n'), "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part} is missing: {error}");
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_is_rejected() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    let mut roots = rustls::RootCertStore::empty();
    use rustls_pki_types::pem::PemObject;
    let authority = rustls_pki_types::CertificateDer::from_pem_file(folder.path().join("ca.crt")).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(serving.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    let error = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 16])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}

#[tokio::test]
async fn a_client_without_tls_is_rejected() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    let driver = GrpcDriver::connect(&format!("grpc://{}", serving.address)).unwrap();
    let error = driver.get_volume_ids(Vec::new()).await.unwrap_err();
    assert_ne!(error.code, Code::Unimplemented, "{error}");
    serving.call(client_files(folder.path())).await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_named() {
    let folder = folder();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
    let server = Server::builder().add_service(cloud.driver_server());
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let task = tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    let serving = Serving { address, task };
    let error = serving.call(client_files(folder.path())).await.unwrap_err();
    assert_rejected(&error, &["does not use TLS"]);
}

#[tokio::test]
async fn rotated_files_serve_the_next_connections_on_both_sides() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    let driver = serving.driver(client_files(folder.path()));
    driver.get_volume_ids(Vec::new()).await.unwrap();
    let before = client_files(folder.path()).files.client_config().unwrap();
    certificates(Clock::wall().now()).write(folder.path()).unwrap();
    // The old connection stays open, a new one uses the new files, and the old files are rejected.
    driver.get_volume_ids(Vec::new()).await.unwrap();
    serving.call(client_files(folder.path())).await.unwrap();
    let stream = TcpStream::connect(serving.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(before));
    let error = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("UnknownIssuer") || error.to_string().contains("BadSignature"),
        "{error}"
    );
}

#[tokio::test]
async fn a_half_rotated_server_continues_with_its_old_files() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    std::fs::remove_file(folder.path().join("server.key")).unwrap();
    serving.call(client_files(folder.path())).await.unwrap();
}

#[tokio::test]
async fn a_missing_client_file_is_named_by_the_call() {
    let folder = folder();
    let serving = serve(folder.path()).await;
    let tls = client_files(folder.path());
    std::fs::remove_file(&tls.files.cert).unwrap();
    let error = serving.call(tls).await.unwrap_err();
    assert_rejected(&error, &["client.crt", "not usable"]);
}

#[tokio::test]
async fn a_server_without_its_files_does_not_start() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let error = incoming(listener, server_files(Path::new("/no/such"))).err().unwrap();
    assert!(error.to_string().contains("/no/such/ca.crt"), "{error}");
}
