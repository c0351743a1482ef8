//! Runs the program `drydock`, one process a simulated job, as people do.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The program with these arguments, in a folder of its own for reports.
pub fn drydock(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drydock"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// What a simulated run left in its JSON result; also when runs failed.
pub fn simulate(folder: &Path, arguments: &[&str]) -> (Output, Vec<Value>) {
    let mut all = vec!["run", "--stage", "sim", "--json", "result.json"];
    all.extend(arguments);
    let output = drydock(folder, &all);
    let text = std::fs::read(folder.join("result.json"))
        .unwrap_or_else(|error| panic!("no result ({error}): {}", said(&output)));
    let document: Value = serde_json::from_slice(&text).unwrap();
    (output, document["runs"].as_array().unwrap().clone())
}

/// Everything that it printed.
pub fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
