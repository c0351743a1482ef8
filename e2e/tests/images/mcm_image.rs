//! The image of mcm.

use std::net::SocketAddr;

use rstest::rstest;
use stage::ports::free_port;

use crate::containers::{self, Authority, assert_stops_gracefully, fails, files, get, metrics};
use crate::fakecloud_image::Cloud;
use crate::plane::{CREDENTIAL, Plane};
use crate::programs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_leads_creates_a_machine_and_releases_the_lease() {
    let (plane, authority) = (Plane::start().await, Authority::new());
    let cloud = Cloud::start(&authority, &plane.kubeconfig).await;
    let probes = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let (driver, port) = (
        format!("--driver=grpcs://{}", cloud.grpc),
        format!("--port={}", probes.port()),
    );
    let arguments = [
        driver.as_str(),
        port.as_str(),
        "--address=127.0.0.1",
        "--driver-tls-ca=/tls/ca.crt",
        "--driver-tls-cert=/tls/client.crt",
        "--driver-tls-key=/tls/client.key",
        "--driver-tls-server-name=fakecloud",
        "--control-kubeconfig=/kubeconfig",
        "--target-kubeconfig=/kubeconfig",
        "--short-retry=200ms",
        "--v=5",
    ];
    let files = files(&authority, &plane.kubeconfig);
    let mcm = containers::start(programs::mcm().await, &arguments, files, "the caches are filled").await;
    assert!(get(probes, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(get(probes, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert_ne!(plane.leader().await, "");
    plane.run_machine("m-00001").await;
    let counted = metrics(probes).await;
    assert!(counted.contains("\nmcm_leader 1\n"), "{counted}");
    assert!(counted.contains("mcm_machine_items_total 1"), "{counted}");

    assert_stops_gracefully(&mcm);
    assert_eq!(plane.leader().await, "");
    let printed = mcm.log();
    let secrets = authority.keys().map(str::to_owned).into_iter();
    let secrets = secrets.chain([CREDENTIAL, "PRIVATE KEY", "join --token"].map(str::to_owned));
    for secret in secrets {
        assert!(!printed.contains(&secret), "the log holds a secret: {printed}");
    }
}

#[rstest]
#[case::no_driver(&[], "--driver is missing")]
#[case::an_unencrypted_driver(&["--driver=grpc://10.0.0.1:7300"], "use grpcs://10.0.0.1:7300")]
#[case::missing_certificates(
    &["--driver=grpcs://127.0.0.1:7300", "--driver-tls-ca=/tls/ca.crt", "--driver-tls-cert=/tls/tls.crt", "--driver-tls-key=/tls/tls.key"],
    "/tls/ca.crt"
)]
#[case::no_service_account(
    &["--driver=grpc://127.0.0.1:7300", "--address=127.0.0.2"],
    "not in a pod with a service account"
)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fails_with_one_line_when_it_cannot_start(#[case] arguments: &[&str], #[case] expected: &str) {
    let printed = fails(programs::mcm().await, arguments);
    assert!(
        printed.contains(expected) && printed.trim().lines().count() == 1,
        "{printed}"
    );
}
