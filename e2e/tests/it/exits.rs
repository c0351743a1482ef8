//! The exit status of commands that do not complete, and what they still report.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;
use serde_json::Value;

use crate::drydock::{UNREACHABLE, drydock, drydock_program, printed};

#[rstest]
#[case::ctrl_c(Signal::SIGINT, 130)]
#[case::terminated(Signal::SIGTERM, 143)]
fn an_interrupted_run_reports_the_complete_runs(#[case] signal: Signal, #[case] status: i32) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "run",
        "lifecycle",
        "--stage",
        "sim",
        "--seeds",
        "10000",
        "--json",
        "result.json",
        "--junit",
        "result.xml",
    ];
    let mut run = drydock_program()
        .args(arguments)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("ok ")), "no run is complete");
    kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), signal).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.wait().unwrap().code(), Some(status), "{rest:?}");
    let summary = rest.last().unwrap();
    assert!(
        summary.starts_with("interrupted: ") && summary.contains(" not run"),
        "{summary}"
    );
    let result: Value = serde_json::from_slice(&std::fs::read(folder.path().join("result.json")).unwrap()).unwrap();
    assert_eq!(result["interrupted"], true);
    assert!(result["passed"].as_u64().unwrap() > 0, "{result}");
    let junit = std::fs::read_to_string(folder.path().join("result.xml")).unwrap();
    assert!(junit.contains("<testcase"), "{junit}");
}

#[test]
fn an_unavailable_stage_is_one_line_with_status_3() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock_program()
        .args(["run", "--stage", "envtest"])
        .env("KUBEBUILDER_ASSETS", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("drydock: stage envtest is not available: "),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
}

#[test]
fn a_cluster_that_does_not_answer_is_one_line_with_status_3() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("unreachable.kubeconfig"), UNREACHABLE).unwrap();
    let arguments = [
        "run",
        "--stage",
        "kubeconfig",
        "--kubeconfig",
        "unreachable.kubeconfig",
        "--yes",
    ];
    let output = drydock(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("https://127.0.0.1:1 cannot be used"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn the_exit_status_is_documented_in_the_help() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["--help"]));
    assert!(
        text.contains("0 passed, 1 failures, 2 wrong usage, 3 stage not available, 130 or 143 interrupted"),
        "{text}"
    );
}
