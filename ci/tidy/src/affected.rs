//! Determines the crates that a change affects: the changed crates and their dependents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::dependencies::{array, text};

/// Files outside any crate that the tests of a crate read, by path prefix.
const READ_BY: [(&str, &str); 7] = [
    ("deploy/", "stage"),
    ("docs/", "e2e"),
    ("docs/how-it-works/preservation-rules.md", "mcm-core"),
    ("docs/reference/cloud-faults.md", "fakecloud"),
    ("docs/using/api-server-faults.md", "apiserver-tests"),
    ("examples/", "e2e"),
    ("scripts/kubernetes/", "stage"),
];
/// Files on which the build of every crate depends.
const ALL: [&str; 5] = [
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "rust-toolchain.toml",
    ".cargo/",
];
/// The crate that checks every file.
const TIDY: &str = "tidy";

/// The crates of the workspace to test after a change of these files, in order of dependency.
///
/// `metadata` is the output of `cargo metadata --no-deps`; paths are relative to the workspace's folder.
pub fn affected(metadata: &Value, changed: &[&str]) -> Vec<String> {
    if changed.is_empty() {
        return Vec::new();
    }
    let crates = Crates::read(metadata);
    let mut touched = BTreeSet::from([TIDY]);
    for path in changed {
        if ALL.iter().any(|file| path.starts_with(file)) {
            return crates.in_order().map(str::to_owned).collect();
        }
        let read_by = READ_BY.iter().filter(|(folder, _)| path.starts_with(folder));
        touched.extend(read_by.map(|(_, reader)| *reader));
        touched.extend(crates.owner(path));
    }
    let concerned = crates.with_dependents(&touched);
    crates
        .in_order()
        .filter(|name| concerned.contains(name))
        .map(str::to_owned)
        .collect()
}

/// The number of test programs that a build of these crates with default features produces.
pub fn test_programs(metadata: &Value, crates: &[String]) -> usize {
    let packages =
        array(metadata, "packages").filter(|package| crates.iter().any(|name| name == text(package, "name")));
    let targets = packages.flat_map(|package| array(package, "targets"));
    let is_built = |target: &&Value| target["test"] == true && array(target, "required-features").next().is_none();
    targets.filter(is_built).count()
}

struct Crates<'a> {
    /// The folder of each crate, relative to the workspace.
    folders: BTreeMap<&'a str, String>,
    /// The dependencies of each crate, including those of its tests.
    below: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Crates<'a> {
    fn read(metadata: &'a Value) -> Self {
        let root = format!("{}/", text(metadata, "workspace_root"));
        let mut crates = Self {
            folders: BTreeMap::new(),
            below: BTreeMap::new(),
        };
        for package in array(metadata, "packages") {
            let manifest = text(package, "manifest_path");
            let manifest = manifest.strip_prefix(&root).unwrap_or(manifest);
            let folder = manifest.trim_end_matches("Cargo.toml").to_owned();
            let name = text(package, "name");
            let local = array(package, "dependencies").filter(|dependency| dependency["path"].is_string());
            crates.folders.insert(name, folder);
            crates
                .below
                .insert(name, local.map(|dependency| text(dependency, "name")).collect());
        }
        crates
    }

    /// The crate that contains a file: the one with the innermost folder.
    fn owner(&self, path: &str) -> Option<&'a str> {
        let above = self
            .folders
            .iter()
            .filter(|(_, folder)| path.starts_with(folder.as_str()));
        above.max_by_key(|(_, folder)| folder.len()).map(|(name, _)| *name)
    }

    fn with_dependents(&self, touched: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut all = touched.clone();
        loop {
            let more = self.below.iter().filter(|(_, below)| !below.is_disjoint(&all));
            let more: BTreeSet<&str> = more.map(|(name, _)| *name).collect();
            if more.is_subset(&all) {
                return all;
            }
            all.extend(more);
        }
    }

    /// All crates, each after its dependencies.
    fn in_order(&self) -> impl Iterator<Item = &'a str> {
        let mut order: Vec<&str> = Vec::new();
        while order.len() < self.below.len() {
            let ready = self.below.iter().filter(|(name, below)| {
                !order.contains(name)
                    && below
                        .iter()
                        .all(|one| order.contains(one) || !self.below.contains_key(one))
            });
            let ready: Vec<&str> = ready.map(|(name, _)| *name).collect();
            if ready.is_empty() {
                break; // a cycle, which cargo rejects
            }
            order.extend(ready);
        }
        order.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn workspace() -> Value {
        let package = |name: &str, folder: &str, below: &[&str]| {
            let below: Vec<Value> = below.iter().map(|name| json!({ "name": name, "path": "x" })).collect();
            json!({ "name": name, "manifest_path": format!("/w/{folder}Cargo.toml"), "dependencies": below })
        };
        json!({ "workspace_root": "/w", "packages": [
            package("mcm", "mcm/", &["mcm-core", "clock"]),
            package("mcm-core", "mcm/core/", &[]),
            package("clock", "clock/", &[]),
            package("harness", "harness/", &["mcm"]),
            package("e2e", "e2e/", &["harness"]),
            package("tidy", "ci/tidy/", &[]),
        ] })
    }

    #[test]
    fn programs_that_need_a_feature_are_not_built() {
        let targets = json!([
            { "name": "e2e", "test": true },
            { "name": "it", "test": true },
            { "name": "images", "test": true, "required-features": ["containers"] },
            { "name": "first_light", "test": false },
        ]);
        let metadata = json!({ "packages": [
            { "name": "e2e", "targets": targets },
            { "name": "mcm", "targets": [{ "name": "mcm", "test": true }] },
        ] });
        assert_eq!(test_programs(&metadata, &["e2e".to_owned()]), 2);
    }

    #[rstest]
    #[case::nothing(&[], &[])]
    #[case::the_lowest(&["mcm/core/src/lib.rs"], &["mcm-core", "tidy", "mcm", "harness", "e2e"])]
    #[case::one_in_the_middle(&["mcm/src/lib.rs"], &["tidy", "mcm", "harness", "e2e"])]
    #[case::a_file_that_tests_read(&["docs/reference/regressions.md"], &["tidy", "e2e"])]
    #[case::a_file_of_no_crate(&["Makefile"], &["tidy"])]
    #[case::the_lock_file(&["Cargo.lock"], &["clock", "mcm-core", "tidy", "mcm", "harness", "e2e"])]
    fn a_change_affects_its_crate_and_the_dependents(#[case] changed: &[&str], #[case] expected: &[&str]) {
        assert_eq!(affected(&workspace(), changed), expected);
    }
}
