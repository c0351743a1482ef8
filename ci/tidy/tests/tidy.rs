//! Runs the rules on this checkout.
#![allow(clippy::unwrap_used)] // a test that cannot read the checkout fails

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidy::{cycles, signatures, workflows, workspace};

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

fn metadata() -> serde_json::Value {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    serde_json::from_slice(&output(env!("CARGO"), &arguments)).unwrap()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    assert_none(&tidy::dependencies::check(&metadata()));
}

#[test]
fn modules_of_a_crate_form_no_cycles() {
    let crates = workspace::crates(&root(), &metadata()).unwrap();
    let read = |file: &Path| workspace::read(&root(), file);
    assert_none(&cycles::check(&crates, cycles::EXCEPTIONS, &read));
}

#[test]
fn public_functions_have_typed_errors() {
    let crates = workspace::crates(&root(), &metadata()).unwrap();
    let read = |file: &Path| workspace::read(&root(), file);
    assert_none(&signatures::check(&crates, &read));
}

/// The packages of `make product-test`: mcm without defects.
const PRODUCT: [&str; 6] = ["-p", "mcm", "-p", "mcm-core", "-p", "tidy"];

/// The packages with their features that `cargo tree` lists for `arguments`. Downloads missing packages.
fn features(arguments: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--locked", "--prefix", "none", "--format", "{p} {f}", "--edges"];
    let listing = output(env!("CARGO"), &[&tree, arguments].concat());
    let listing = String::from_utf8(listing).unwrap();
    let lines = listing.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// A dependency with different features is compiled twice, and so are all its dependents.
#[test]
fn the_build_and_all_tests_share_compiled_dependencies() {
    let build = features(&["normal,build", "--workspace"]);
    let tests = features(&["normal,build,dev", "--workspace"]);
    let product = features(&[&["normal,build,dev"], &PRODUCT[..]].concat());
    let only_in_product = |package: &&String| package.starts_with("defects ");
    let differ = build
        .difference(&tests)
        .chain(product.difference(&tests).filter(|package| !only_in_product(package)));
    let differ: Vec<&String> = differ.collect();
    assert!(
        differ.is_empty(),
        "tests need other features of {differ:?}: declare them for the build, too, in ci/tidy/Cargo.toml"
    );
}

#[test]
fn every_file_follows_the_rules() {
    let listing = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listing = String::from_utf8(listing).unwrap();
    let mut findings = Vec::new();
    for path in listing.lines() {
        // Skip deleted files that git still lists, and binary files.
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            findings.extend(tidy::files::check(path, &text));
        }
    }
    assert_none(&findings);
}

/// The executable files that git knows.
fn scripts() -> BTreeSet<String> {
    let listing = output("git", &["ls-files", "--stage"]);
    let listing = String::from_utf8(listing).unwrap();
    let executable = listing.lines().filter(|line| line.starts_with("100755"));
    let paths = executable.filter_map(|line| line.split_once('\t'));
    paths.map(|(_, path)| path.to_owned()).collect()
}

#[test]
fn workflows_call_only_what_exists() {
    let callable = workflows::Callable {
        targets: workflows::targets(&std::fs::read_to_string(root().join("Makefile")).unwrap()),
        scripts: scripts(),
    };
    let folder = root().join(".github/workflows");
    let files = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = files
        .map(|name| format!(".github/workflows/{}", name.display()))
        .collect();
    files.push("action.yml".to_owned());
    assert!(files.len() > 4, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        assert_none(&workflows::check(&file, &text, &callable));
    }
}
