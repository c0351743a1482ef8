//! The JSON result: one document with the totals and every run.

use std::path::Path;

use scenario::result::RunResult;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    passed: usize,
    failed: usize,
    runs: &'a [RunResult],
}

/// Writes all results to a file.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, runs: &[RunResult]) -> std::io::Result<()> {
    let passed = runs.iter().filter(|run| run.passed()).count();
    let document = Document {
        passed,
        failed: runs.len() - passed,
        runs,
    };
    super::folder::write_file(path, &serde_json::to_vec_pretty(&document)?)
}
