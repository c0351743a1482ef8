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
