//! Campaigns: random plans that a correct mcm survives, and the report of a campaign.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;
use serde_json::Value;

use crate::drydock::{drydock, drydock_program, printed};

fn document(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("chaos.json")).unwrap()).unwrap()
}

#[test]
fn a_correct_mcm_survives_random_plans_and_the_campaign_counts_events() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "chaos",
        "first-light",
        "--seeds",
        "8",
        "--json",
        "chaos.json",
        "--junit",
        "chaos.xml",
    ];
    let output = drydock(folder.path(), &arguments);
    let printed = printed(&output);
    assert!(output.status.success(), "{printed}");
    assert!(
        printed.contains("8 passed, 0 failed") && printed.contains(" a minute"),
        "{printed}"
    );
    let document = document(folder.path());
    assert_eq!(
        (document["seeds"].as_u64(), document["failed"].as_u64()),
        (Some(8), Some(0))
    );
    let occurred = document["occurred"].as_array().unwrap();
    for (group, name) in [
        ("transition", "Pending -> Running"),
        ("reason", "AskForVm"),
        ("fault", "crash mcm after"),
    ] {
        let found = occurred
            .iter()
            .any(|line| line["group"] == group && line["name"] == name);
        assert!(found, "{group} {name} is not in {occurred:?}");
    }
    let junit = std::fs::read_to_string(folder.path().join("chaos.xml")).unwrap();
    assert!(junit.contains("tests=\"8\""), "{junit}");
}

#[test]
fn random_worlds_satisfy_the_invariants_of_preservation() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &["chaos", "preservation", "--seeds", "2"]);
    let printed = printed(&output);
    assert!(
        output.status.success() && printed.contains("2 passed, 0 failed"),
        "{printed}"
    );
}

#[test]
fn random_worlds_detect_a_lost_preserved_machine() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = [
        "chaos",
        "preservation",
        "--mutant",
        "R76",
        "--seeds",
        "10",
        "--failures",
        "1",
    ];
    let output = drydock(folder.path(), &campaign);
    let printed = printed(&output);
    assert!(!output.status.success(), "{printed}");
    assert!(
        printed.contains("invariant I5 is broken") && printed.contains("replay: "),
        "{printed}"
    );
}

/// Without its trace the undisturbed run would differ in its first events already.
#[test]
fn a_failure_is_named_after_what_first_differs_from_the_undisturbed_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(
        folder.path(),
        &[
            "chaos",
            "first-light",
            "--mutant",
            "create-without-asking",
            "--seeds",
            "12",
            "--failures",
            "1",
        ],
    );
    let printed = printed(&output);
    assert!(
        printed.contains("1 of the failures: I1, after \"mcm: crash before effect"),
        "{printed}"
    );
    let (_, compare) = printed.split_once("compare: drydock ").unwrap();
    let arguments: Vec<&str> = compare.lines().next().unwrap_or_default().split(' ').collect();
    let difference = crate::drydock::printed(&drydock(folder.path(), &arguments));
    assert!(difference.contains("mcm: crash before effect"), "{difference}");
    // The page of the campaign leads to the same comparison.
    let chaos = folder.path().join(".drydock/chaos");
    let page = std::fs::read_to_string(chaos.join("campaign.html")).unwrap();
    let (before, _) = page.split_once("difference.html\"").unwrap();
    let (_, failed) = before.rsplit_once("href=\"").unwrap();
    let beside = std::fs::read_to_string(chaos.join(failed).join("difference.html")).unwrap();
    assert!(beside.contains("mcm: crash before effect"), "{beside}");
}

#[test]
fn a_campaign_ends_at_its_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &["chaos", "--for", "2s", "--json", "chaos.json"]);
    assert!(output.status.success(), "{}", printed(&output));
    let document = document(folder.path());
    assert!(document["wallSeconds"].as_f64().unwrap() < 30.0, "{document}");
    assert_eq!(document["seeds"], document["passed"]);
}

#[test]
fn an_interrupted_campaign_reports_its_partial_results() {
    let folder = tempfile::tempdir().unwrap();
    let mut campaign = drydock_program()
        .args([
            "chaos",
            "--seeds",
            "100000",
            "--mutant",
            "create-without-asking",
            "--json",
            "chaos.json",
        ])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(campaign.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("FAIL")), "no failure is reported");
    kill(Pid::from_raw(i32::try_from(campaign.id()).unwrap()), Signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(campaign.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("interrupted: ")), "{rest:?}");
    let document = document(folder.path());
    assert!(document["failed"].as_u64().unwrap() > 0 && document["interrupted"] == true);
}

#[test]
fn a_campaign_continues_while_its_program_is_rebuilt() {
    // In the program's folder, where files can have a second name.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = folder.path().join("drydock");
    std::fs::hard_link(drydock_program().get_program(), &copy).unwrap();
    let campaign = Command::new(&copy)
        .args(["chaos", "first-light", "--seeds", "4"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::fs::remove_file(&copy).unwrap();
    let output = campaign.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
}

#[rstest]
#[case::an_unknown_suite(&["chaos", "nothing"], "there is first-light")]
#[case::a_wall_clock(&["chaos", "--stage", "embedded"], "--stage sim")]
#[case::no_seeds(&["chaos", "--seeds", "0"], "no seeds")]
fn invalid_input_fails_with_status_2(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains(expected), "{}", printed(&output));
}
