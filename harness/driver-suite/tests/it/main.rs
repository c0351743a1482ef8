//! The suite against correct drivers, and against drivers with planted faults.

// Test helpers are not test functions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod correct;
mod faults;
mod inputs;
mod planted;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use driver_suite::{CASES, Inputs, Limits, Outcome, Report, Session, random_prefix};
use mcm_driver::Driver;
use tokio_util::sync::CancellationToken;

/// A file below `examples/`.
fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file)
}

/// The inputs of the skeleton drivers.
fn skeleton_inputs() -> Inputs {
    Inputs::read(
        &example("driver-rust/machine-class.yaml"),
        &[example("driver-rust/secret.yaml")],
    )
    .unwrap()
}

/// The inputs of fakecloud.
fn fakecloud_inputs() -> Inputs {
    Inputs::read(&example("machine-class.yaml"), &[example("secret.yaml")]).unwrap()
}

/// Limits for a driver that has no reason to be slow.
const SHORT: Limits = Limits {
    call: Duration::from_secs(2),
    settle: Duration::from_millis(200),
};

/// A session with a driver in this process.
fn session(driver: impl Driver + 'static, inputs: Inputs) -> Session {
    Session::new(Arc::new(driver), inputs, SHORT, random_prefix().unwrap()).unwrap()
}

/// Runs all cases.
async fn run_all(driver: impl Driver + 'static, inputs: Inputs) -> Report {
    let session = session(driver, inputs);
    driver_suite::run(&session, CASES, &CancellationToken::new(), |_| {}).await
}

/// Why a case failed.
fn reason<'a>(report: &'a Report, case: &str) -> &'a str {
    let result = report.results.iter().find(|result| result.name == case);
    match &result.expect("the case ran").outcome {
        Outcome::Failed(reason) => reason,
        other => panic!("{case}: {other:?}"),
    }
}
