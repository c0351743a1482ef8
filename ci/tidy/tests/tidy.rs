//! Runs the rules over this checkout.
#![allow(clippy::unwrap_used)] // a test that cannot read the checkout fails

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn crates_depend_only_downwards() {
    let metadata = output(
        env!("CARGO"),
        &["metadata", "--no-deps", "--offline", "--format-version", "1"],
    );
    assert_none(&tidy::dependencies::check(&serde_json::from_slice(&metadata).unwrap()));
}

/// Each package with its features, as far as those kinds of dependencies go.
fn features(kinds: &str) -> BTreeSet<String> {
    let tree = [
        "tree",
        "--workspace",
        "--offline",
        "--prefix",
        "none",
        "--format",
        "{p} {f}",
        "--edges",
        kinds,
    ];
    let listing = String::from_utf8(output(env!("CARGO"), &tree)).unwrap();
    let lines = listing.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// A dependency whose features differ is compiled twice, and so is everything that depends on it.
#[test]
fn a_build_and_the_tests_share_all_compiled_dependencies() {
    let (build, tests) = (features("normal,build"), features("normal,build,dev"));
    let differ: Vec<String> = build.difference(&tests).cloned().collect();
    assert!(
        differ.is_empty(),
        "dev-dependencies change the features of {differ:?}: declare the feature for the build, too"
    );
}

#[test]
fn every_file_is_as_it_should_be() {
    let listing = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listing = String::from_utf8(listing).unwrap();
    let mut findings = Vec::new();
    for path in listing.lines() {
        // A deleted file that git still lists, or one that is no text, has nothing to check.
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            findings.extend(tidy::files::check(path, &text));
        }
    }
    assert_none(&findings);
}
