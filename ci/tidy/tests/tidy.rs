//! Runs the rules over this checkout.
#![allow(clippy::unwrap_used)] // a test that cannot read the checkout fails

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidy::{cycles, signatures, workspace};

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
fn crates_depend_only_downwards() {
    assert_none(&tidy::dependencies::check(&metadata()));
}

#[test]
fn modules_of_a_crate_form_no_cycles() {
    let crates = workspace::crates(&root(), &metadata()).unwrap();
    let read = |file: &Path| workspace::read(&root(), file);
    assert_none(&cycles::check(&crates, cycles::EXCEPTIONS, &read));
}

#[test]
fn public_functions_say_by_a_type_what_went_wrong() {
    let crates = workspace::crates(&root(), &metadata()).unwrap();
    let read = |file: &Path| workspace::read(&root(), file);
    assert_none(&signatures::check(&crates, &read));
}

/// What the tests of the container images build on their own: their client of Docker has more features there.
const OF_IMAGES: [&str; 3] = ["bollard ", "bollard-stubs ", "e2e "];

/// What `make product-test` tests: mcm without planted defects.
const PRODUCT: [&str; 6] = ["-p", "mcm", "-p", "mcm-core", "-p", "tidy"];

/// Each package with its features, as far as `arguments` go. Fetches what no build has needed yet.
fn features(arguments: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--locked", "--prefix", "none", "--format", "{p} {f}", "--edges"];
    let listing = output(env!("CARGO"), &[&tree, arguments].concat());
    let listing = String::from_utf8(listing).unwrap();
    let lines = listing.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// A dependency whose features differ is compiled twice, and so is everything that depends on it.
#[test]
fn the_build_and_all_tests_share_compiled_dependencies() {
    let build = features(&["normal,build", "--workspace"]);
    let tests = features(&["normal,build,dev", "--workspace"]);
    let images = features(&["normal,build,dev", "--workspace", "--features", "e2e/containers"]);
    let product = features(&[&["normal,build,dev"], &PRODUCT[..]].concat());
    let of_images = |package: &&String| OF_IMAGES.iter().any(|name| package.starts_with(name));
    let of_product = |package: &&String| package.starts_with("defects ");
    let differ = build
        .difference(&tests)
        .chain(tests.difference(&images).filter(|package| !of_images(package)))
        .chain(product.difference(&tests).filter(|package| !of_product(package)));
    let differ: Vec<&String> = differ.collect();
    assert!(
        differ.is_empty(),
        "tests need other features of {differ:?}: declare them for the build, too, in ci/tidy/Cargo.toml"
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
