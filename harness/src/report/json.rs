//! The JSON result: one document with the totals and every run.

use std::path::Path;

use scenario::result::RunResult;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    passed: usize,
    failed: usize,
    /// Whether the command was interrupted, so that runs are missing.
    interrupted: bool,
    runs: &'a [RunResult],
}

/// Writes all results to a file. `interrupted`: some runs were not performed.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, runs: &[RunResult], interrupted: bool) -> std::io::Result<()> {
    let passed = runs.iter().filter(|run| run.passed()).count();
    let document = Document {
        passed,
        failed: runs.len() - passed,
        interrupted,
        runs,
    };
    super::files::write_file(path, &serde_json::to_vec_pretty(&document)?)
}
