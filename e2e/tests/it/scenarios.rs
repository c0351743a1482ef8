//! Every scenario in virtual time with production's timeouts. `make sim` takes more seeds.

use harness::StageKind;

use crate::drydock::{said, simulate};

#[test]
fn every_scenario_passes() {
    let folder = tempfile::tempdir().unwrap();
    let (output, runs) = simulate(folder.path(), &["--seed", "3"]);
    assert!(output.status.success(), "{}", said(&output));
    let there = e2e::scenarios();
    let there = there.iter().filter(|scenario| scenario.runs_on(StageKind::Sim));
    assert_eq!(runs.len(), there.count());
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
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(runs.len(), suite.len() + 1);
}

#[test]
fn each_injected_error_struck_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_, runs) = simulate(folder.path(), &["create_errors", "--seed", "4"]);
    assert_eq!(
        runs[0]["faults"],
        serde_json::json!({ "broken": 1, "outage": 1, "quota": 1 }),
        "{}",
        runs[0]
    );
}
