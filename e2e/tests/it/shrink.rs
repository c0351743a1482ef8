//! A campaign detects a defect, and shrinks it to a readable scenario.

use std::path::Path;

use scenario::plan::Plan;
use serde_json::Value;

use crate::drydock::{drydock, printed};

/// The maximum number of seeds to detect the defect.
const SEEDS: &str = "1000";

/// The plan of the one failing seed of a campaign with an mcm that creates VMs without a lookup.
fn found(folder: &Path) -> String {
    let mutant = ["--mutant", "create-without-asking"];
    let mut arguments = vec!["chaos", "--seeds", SEEDS, "--failures", "1", "--json", "chaos.json"];
    arguments.extend(mutant);
    let output = drydock(folder, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let document: Value = serde_json::from_slice(&std::fs::read(folder.join("chaos.json")).unwrap()).unwrap();
    let failure = &document["failures"][0];
    assert_eq!(failure["failure"]["invariant"], "I1", "{failure}");
    assert_eq!(document["groups"][0]["broken"], "I1", "{document}");
    let report = failure["report"].as_str().unwrap();
    format!("{report}/plan.yaml")
}

#[test]
fn a_controller_that_creates_without_a_lookup_is_detected_and_shrunk_to_a_short_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let plan = found(folder.path());
    let output = drydock(folder.path(), &["shrink", &plan, "--output", "small.yaml"]);
    assert!(output.status.success(), "{}", printed(&output));

    let text = std::fs::read_to_string(folder.path().join("small.yaml")).unwrap();
    assert!(text.starts_with("# invariant I1 is broken"), "{text}");
    assert!(text.contains("# - cloud CreateMachine for m"), "{text}");
    let small = Plan::from_yaml(&text, "small.yaml", &[]).unwrap();
    assert!(
        small.scenario.steps.len() <= 3 && small.disturbances.len() <= 1,
        "{text}"
    );

    let output = drydock(folder.path(), &["run", "--plan", "small.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(
        printed(&output).contains("invariant I1 is broken"),
        "{}",
        printed(&output)
    );

    let sound = Plan { mutant: None, ..small };
    std::fs::write(folder.path().join("sound.yaml"), sound.to_yaml().unwrap()).unwrap();
    let output = drydock(folder.path(), &["run", "--plan", "sound.yaml"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn a_plan_that_does_not_fail_is_not_shrunk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), "base: lifecycle\n").unwrap();
    let output = drydock(folder.path(), &["shrink", "plan.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("does not fail"), "{}", printed(&output));
    assert!(!folder.path().join("plan.shrunk.yaml").exists());
}
