//! A scenario in Rust equals its file form, and the example passes.

use std::path::Path;

use scenario::Scenario;

use crate::drydock::{drydock, printed, simulate};

#[test]
fn every_scenario_survives_serialization() {
    for scenario in e2e::scenarios() {
        scenario.validate().unwrap();
        let yaml = scenario.to_yaml().unwrap();
        assert_eq!(Scenario::from_yaml(&yaml, &scenario.name).unwrap(), scenario, "{yaml}");
    }
}

#[test]
fn a_scenario_from_a_file_runs_like_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let listed = drydock(folder.path(), &["show", "lifecycle"]);
    std::fs::write(folder.path().join("lifecycle.yaml"), &listed.stdout).unwrap();
    let (_, built_in) = simulate(folder.path(), &["lifecycle", "--seed", "3"]);
    let (_, from_file) = simulate(folder.path(), &["--file", "lifecycle.yaml", "--seed", "3"]);
    assert_eq!(built_in[0]["trace"], from_file[0]["trace"]);
}

#[test]
fn the_example_scenario_passes() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/scenarios/quota.yaml");
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = simulate(folder.path(), &["--file", example.to_str().unwrap()]);
    assert!(output.status.success(), "{}", printed(&output));
}
