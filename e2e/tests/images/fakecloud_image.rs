//! The image of fakecloud.

use std::net::SocketAddr;
use std::sync::Arc;

use fakecloud::proto::InfoRequest;
use fakecloud::proto::cloud_client::CloudClient;
use mcm_driver::Driver;
use mcm_driver::channel::channel;
use mcm_driver::client::GrpcDriver;
use mcm_driver::tls::Tls;
use rstest::rstest;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::containers::{self, Authority, Container, assert_stops_gracefully, fails, files, get, metrics};
use crate::plane::Plane;
use crate::programs;

/// A fakecloud in a container, with its addresses.
pub struct Cloud {
    pub container: Container,
    pub grpc: SocketAddr,
    control: SocketAddr,
    probes: SocketAddr,
}

impl Cloud {
    pub async fn start(authority: &Authority, kubeconfig: &str) -> Self {
        let arguments = [
            "serve",
            "--address=0.0.0.0:0",
            "--control-address=127.0.0.1:0",
            "--health-address=127.0.0.1:0",
            "--tls-cert=/tls/server.crt",
            "--tls-key=/tls/server.key",
            "--tls-client-ca=/tls/ca.crt",
            "--tls-control-ca=/tls/control-ca.crt",
            "--kubeconfig=/kubeconfig",
            "--boot-delay=100ms",
            "--kubelet-start-delay=100ms",
        ];
        let files = files(authority, kubeconfig);
        let container = containers::start(programs::fakecloud().await, &arguments, files, "fakecloud serves on ").await;
        let printed = container.log();
        let after = |text: &str| -> SocketAddr {
            let rest = printed.split(text).nth(1).unwrap();
            rest.split([';', '\n']).next().unwrap().parse().unwrap()
        };
        let grpc = SocketAddr::from(([127, 0, 0, 1], after("fakecloud serves on ").port()));
        Self {
            grpc,
            control: after("control: grpcs://"),
            probes: after("probes and metrics: http://"),
            container,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_serves_only_over_mutual_tls_and_stops_gracefully() {
    let (plane, authority) = (Plane::start().await, Authority::new());
    let cloud = Cloud::start(&authority, &plane.kubeconfig).await;
    assert!(get(cloud.probes, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(get(cloud.probes, "/readyz").await.starts_with("HTTP/1.1 200"));

    let address = format!("grpcs://{}", cloud.grpc);
    let control = format!("grpcs://{}", cloud.control);
    let channel = channel(&control, Some(authority.control())).unwrap();
    let info = CloudClient::new(channel).info(InfoRequest {}).await.unwrap();
    assert_eq!(info.into_inner().live_vms, 0);
    let driver = GrpcDriver::connect_tls(&address, authority.client()).unwrap();
    driver.get_volume_ids(Vec::new()).await.unwrap();
    let counted = metrics(cloud.probes).await;
    assert!(
        counted.contains("fakecloud_driver_calls_total{call=\"GetVolumeIDs\",code=\"OK\"} 1"),
        "{counted}"
    );
    assert!(
        counted.contains("fakecloud_kubelet_api_requests_total{method=\"GET\",code=\"200\"}"),
        "{counted}"
    );

    let plain = GrpcDriver::connect(&format!("grpc://{}", cloud.grpc)).unwrap();
    plain.get_volume_ids(Vec::new()).await.unwrap_err();
    let other = Authority::new();
    let mut stranger = other.client();
    stranger.files.ca = authority.client().files.ca;
    let refused = GrpcDriver::connect_tls(&address, stranger).unwrap();
    let error = refused.get_volume_ids(Vec::new()).await.unwrap_err();
    assert!(error.message.contains("rejects the client certificate"), "{error}");
    assert_refuses_a_client_without_certificate(&cloud, &authority.client()).await;

    assert_stops_gracefully(&cloud.container);
    let printed = cloud.container.log();
    assert!(printed.contains("it presents no certificate"), "{printed}");
    assert!(
        !printed.contains("PRIVATE KEY") && !authority.keys().iter().any(|key| printed.contains(key)),
        "{printed}"
    );
}

async fn assert_refuses_a_client_without_certificate(cloud: &Cloud, tls: &Tls) {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&tls.files.ca).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(cloud.grpc).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    let error = stream.read(&mut [0; 16]).await.unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}

#[rstest]
#[case::off_loopback_without_certificates(
    &["serve", "--address=0.0.0.0:0", "--without-kubelets"],
    "--tls-cert, --tls-key and --tls-client-ca"
)]
#[case::missing_certificates(
    &["serve", "--without-kubelets", "--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key", "--tls-client-ca=/tls/ca.crt"],
    "/tls/ca.crt"
)]
#[case::no_cluster(&["serve", "--address=127.0.0.1:0"], "--kubeconfig FILE")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fails_with_one_line_when_it_cannot_serve(#[case] arguments: &[&str], #[case] expected: &str) {
    let printed = fails(programs::fakecloud().await, arguments);
    assert!(
        printed.contains(expected) && printed.trim().lines().count() == 1,
        "{printed}"
    );
}
