//! Every scenario in virtual time with production timeouts. `make sim` runs more seeds.

use rstest::rstest;
use scenario::StageKind;

use crate::drydock::{printed, simulate};

/// The number of parts, so that none takes longer than a test should.
const PARTS: usize = 12;

#[rstest]
fn every_scenario_passes(#[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)] part: usize) {
    let scenarios = e2e::scenarios();
    let here = scenarios.iter().filter(|scenario| scenario.runs_on(StageKind::Sim));
    let names: Vec<&str> = here
        .skip(part)
        .step_by(PARTS)
        .map(|scenario| scenario.name.as_str())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["--seed", "3", "--jobs", "1"];
    arguments.extend(&names);
    let (output, runs) = simulate(folder.path(), &arguments);
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(runs.len(), names.len());
}

#[test]
fn a_suite_is_run_by_its_name_and_each_scenario_once() {
    let folder = tempfile::tempdir().unwrap();
    let there = e2e::scenarios();
    let suite: Vec<_> = there
        .iter()
        .filter(|scenario| scenario.tags.contains("driver"))
        .collect();
    let names = ["driver", "lifecycle", suite[0].name.as_str(), "lifecycle"];
    let (output, runs) = simulate(folder.path(), &names);
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(runs.len(), suite.len() + 1);
}

#[test]
fn each_injected_error_has_one_hit() {
    let folder = tempfile::tempdir().unwrap();
    let (_, runs) = simulate(folder.path(), &["create_errors", "--seed", "4"]);
    assert_eq!(
        runs[0]["faults"],
        serde_json::json!({ "broken": 1, "outage": 1, "quota": 1 }),
        "{}",
        runs[0]
    );
}
