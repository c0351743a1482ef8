//! The regression corpus: every known bug is detected by its invariant, mcm has none of them, and the page
//! matches.

use std::collections::BTreeSet;
use std::path::Path;

use rstest::rstest;

use crate::drydock::{drydock, printed};

const SHARES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/regressions/shares.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/regressions.md");

/// The number of parts of the corpus, so that none takes longer than a test should.
const PARTS: usize = 32;

/// Checks every 32nd entry: the page lists what detects it.
#[rstest]
fn a_known_bug_is_detected_as_documented(
    #[values(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
        30, 31
    )]
    part: usize,
) {
    let entries = e2e::regressions();
    let ids = entries.iter().skip(part).step_by(PARTS).map(|entry| entry.id);
    let mut arguments = vec![
        "regressions",
        "--jobs",
        "1",
        "--shares",
        SHARES,
        "--document",
        "page.md",
    ];
    arguments.extend(ids);
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &arguments);
    assert!(output.status.success(), "{}", printed(&output));
    let generated = std::fs::read_to_string(folder.path().join("page.md")).unwrap();
    let committed = std::fs::read_to_string(PAGE).unwrap();
    let rows = |page: &str| -> BTreeSet<String> {
        let entries = page.split("## Invariants").next().unwrap_or_default();
        entries
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(str::to_owned)
            .collect()
    };
    let stale: Vec<String> = rows(&generated).difference(&rows(&committed)).cloned().collect();
    assert!(
        stale.is_empty(),
        "docs/reference/regressions.md is stale: drydock regressions --document docs/reference/regressions.md\n{}",
        stale.join("\n")
    );
}

#[test]
#[ignore = "long: the whole corpus in one run, for the page's summary"]
fn every_known_bug_is_detected_and_documented() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["regressions", "--shares", SHARES, "--document", "page.md"];
    let output = drydock(folder.path(), &arguments);
    assert!(output.status.success(), "{}", printed(&output));
    let generated = std::fs::read_to_string(folder.path().join("page.md")).unwrap();
    let committed = std::fs::read_to_string(PAGE).unwrap();
    assert_eq!(
        generated, committed,
        "docs/reference/regressions.md is stale: drydock regressions --document docs/reference/regressions.md"
    );
}

#[test]
fn an_unknown_entry_is_rejected_with_the_existing_ones() {
    let output = drydock(Path::new("."), &["regressions", "R999"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains("R04"), "{}", printed(&output));
}

#[test]
fn every_mutant_has_a_case_and_every_mutant_of_a_case_exists() {
    let cases: Vec<_> = e2e::regressions().into_iter().flat_map(|entry| entry.cases).collect();
    let with: BTreeSet<&str> = cases.iter().filter(|case| case.mutant).map(|case| case.id).collect();
    let mutants: BTreeSet<&str> = harness::regression::mutants().into_iter().collect();
    assert_eq!(with, mutants);
    let shares: std::collections::BTreeMap<String, f64> =
        serde_json::from_str(&std::fs::read_to_string(SHARES).unwrap()).unwrap();
    let recorded: BTreeSet<&str> = shares.keys().map(String::as_str).collect();
    assert_eq!(recorded, mutants, "each share is recorded");
}

#[test]
fn every_case_can_be_used() {
    let mut invalid = Vec::new();
    for case in e2e::regressions().into_iter().flat_map(|entry| entry.cases) {
        let written = case.scenario.to_yaml().unwrap();
        match scenario::Scenario::from_yaml(&written, case.id) {
            Ok(read) => assert_eq!(read, case.scenario, "{}", case.id),
            Err(error) => invalid.push(error.to_string()),
        }
    }
    assert!(invalid.is_empty(), "{}", invalid.join("\n"));
}
