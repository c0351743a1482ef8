//! Reads the crates of this checkout for the rules about modules.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::modules::{Crate, ReadError};

/// Crates with their own lock file, which are not in the workspace's metadata.
const OUTSIDE: [(&str, &str); 1] = [("generate", "scripts/generate/src/main.rs")];

/// The target kinds that are not tests.
const PRODUCTS: [&str; 4] = ["lib", "bin", "example", "bench"];

/// Reads every library, program, example and benchmark in the metadata; paths are relative to `root`.
///
/// # Errors
/// If a file cannot be read or is not valid Rust.
pub fn crates(root: &Path, metadata: &Value) -> Result<Vec<Crate>, ReadError> {
    let workspace = metadata["workspace_root"].as_str().unwrap_or_default();
    let read = |file: &Path| read(root, file);
    let mut crates = Vec::new();
    for (name, file) in roots(metadata) {
        let file = file.strip_prefix(workspace).unwrap_or(&file).to_owned();
        crates.push(Crate::read(&name, &file, &read)?);
    }
    for (name, file) in OUTSIDE {
        crates.push(Crate::read(name, Path::new(file), &read)?);
    }
    Ok(crates)
}

/// A file of the checkout.
pub fn read(root: &Path, file: &Path) -> Option<String> {
    std::fs::read_to_string(root.join(file)).ok()
}

/// The name and root file of each target. A library has its package's name; other targets append their own.
fn roots(metadata: &Value) -> Vec<(String, PathBuf)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut roots = Vec::new();
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]) {
            let kinds = list(&target["kind"]);
            let kind = kinds
                .iter()
                .find_map(|kind| PRODUCTS.into_iter().find(|product| kind == product));
            let (Some(kind), Some(file)) = (kind, target["src_path"].as_str()) else {
                continue;
            };
            let package = package["name"].as_str().unwrap_or_default();
            let name = match kind {
                "lib" => package.to_owned(),
                kind => format!("{package} ({kind} {})", target["name"].as_str().unwrap_or_default()),
            };
            roots.push((name, PathBuf::from(file)));
        }
    }
    roots
}
