//! Correct drivers: fakecloud in process and over gRPC, and the Rust skeleton.

use std::collections::BTreeSet;
use std::sync::Arc;

use clock::{Clock, Seed};
use driver_suite::{CASES, Outcome, Report, Session, random_prefix};
use fakecloud::{Config, Fakecloud};
use mcm_driver::client::GrpcDriver;
use mcm_driver::of_provider::OfProvider;
use mcm_driver::server::DriverService;
use rstest::rstest;
use skeleton_driver::{PROVIDER, Skeleton};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::{SHORT, fakecloud_inputs, run_all, skeleton_inputs};

fn cloud(config: Config) -> Fakecloud {
    Fakecloud::new(config, Clock::wall(), Seed::new(1))
}

fn assert_green(report: &Report, skipped: &[&str]) {
    assert!(report.is_green(), "{report:#?}");
    assert_eq!(report.skipped().collect::<Vec<_>>(), skipped, "{report:#?}");
    assert_eq!(report.results.len(), CASES.len());
}

#[rstest]
#[case::as_it_is(false)]
#[case::with_vms_that_need_initialization(true)]
#[tokio::test]
async fn fakecloud_is_green(#[case] require_initialize: bool) {
    let config = Config {
        require_initialize,
        ..Config::default()
    };
    let report = run_all(cloud(config).driver(), fakecloud_inputs()).await;
    assert_green(&report, &[]);
}

#[tokio::test]
async fn fakecloud_over_grpc_is_green() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("grpc://{}", listener.local_addr().unwrap());
    let server = Server::builder()
        .add_service(DriverService::new(cloud(Config::default()).driver()).into_server())
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let report = run_all(GrpcDriver::connect(&address).unwrap(), fakecloud_inputs()).await;
    assert_green(&report, &[]);
    server.abort();
}

#[tokio::test]
async fn the_rust_skeleton_is_green() {
    let driver = OfProvider::new(PROVIDER, Skeleton::default());
    let report = run_all(driver, skeleton_inputs()).await;
    assert_green(
        &report,
        &[
            "initialize-repeated",
            "update-repeated",
            "stop-repeated",
            "stop-unknown",
        ],
    );
}

#[tokio::test]
async fn two_runs_at_once_do_not_disturb_each_other() {
    let driver = Arc::new(cloud(Config::default()).driver());
    let session = || Session::new(driver.clone(), fakecloud_inputs(), SHORT, random_prefix().unwrap()).unwrap();
    let (one, other) = (session(), session());
    let stop = CancellationToken::new();
    let (one, other) = tokio::join!(
        driver_suite::run(&one, CASES, &stop, |_| {}),
        driver_suite::run(&other, CASES, &stop, |_| {}),
    );
    assert_green(&one, &[]);
    assert_green(&other, &[]);
}

#[tokio::test]
async fn a_stopped_run_cleans_up_and_is_not_green() {
    let cloud = cloud(Config::default());
    let session = Session::new(
        Arc::new(cloud.driver()),
        fakecloud_inputs(),
        SHORT,
        "stopped".to_owned(),
    )
    .unwrap();
    let stop = CancellationToken::new();
    let report = driver_suite::run(&session, CASES, &stop, |_| stop.cancel()).await;
    assert!(report.stopped && !report.is_green(), "{report:#?}");
    assert_eq!((report.results.len(), report.leftovers.len()), (1, 0), "{report:#?}");
}

#[test]
fn every_case_has_a_name_and_a_rule() {
    let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), CASES.len());
    assert!(CASES.iter().all(|case| case.rule.ends_with('.')));
}

#[tokio::test]
async fn a_class_without_ownership_tags_skips_the_case_that_needs_them() {
    let mut inputs = fakecloud_inputs();
    inputs.class.provider_spec["tags"] = serde_json::json!({});
    let report = run_all(cloud(Config::default()).driver(), inputs).await;
    let skipped = report.results.iter().find(|result| result.name == "list-other-cluster");
    let outcome = &skipped.unwrap().outcome;
    assert!(
        matches!(outcome, Outcome::Skipped(reason) if reason.contains("add one to the class")),
        "{outcome:?}"
    );
}
