//! The Common Test Report Format (CTRF): JSON for tools that show test results.

use std::path::Path;

use jiff::Timestamp;
use scenario::result::RunResult;
use serde::Serialize;
use serde_json::{Value, json};

use super::junit::title;

/// The version of the format.
const VERSION: &str = "0.0.0";
/// The variables in which CI systems put the identifier of a run.
const RUNS: [&str; 2] = ["GITHUB_RUN_ID", "CI_PIPELINE_ID"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    report_format: &'static str,
    spec_version: &'static str,
    generated_by: &'static str,
    /// The run of the CI system, which several reports may belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    results: Results,
}

#[derive(Serialize)]
struct Results {
    tool: Tool,
    summary: Summary,
    tests: Vec<Test>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Counts of tests, and the times of the run in milliseconds since 1970.
#[derive(Serialize)]
struct Summary {
    tests: usize,
    passed: usize,
    failed: usize,
    pending: usize,
    skipped: usize,
    other: usize,
    start: i64,
    stop: i64,
}

#[derive(Serialize)]
struct Test {
    name: String,
    status: &'static str,
    /// Milliseconds by the wall clock.
    duration: u64,
    suite: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    extra: Value,
}

/// Writes all results to a file. `started` and `stopped` are the times of the command.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, runs: &[RunResult], started: Timestamp, stopped: Timestamp) -> std::io::Result<()> {
    let run = RUNS.iter().find_map(|name| std::env::var(name).ok());
    let document = document(runs, started, stopped, run);
    super::files::write_file(path, &serde_json::to_vec_pretty(&document)?)
}

fn document(runs: &[RunResult], started: Timestamp, stopped: Timestamp, run: Option<String>) -> Document {
    let passed = runs.iter().filter(|run| run.passed()).count();
    Document {
        report_format: "CTRF",
        spec_version: VERSION,
        generated_by: "drydock",
        run_id: run.filter(|run| !run.is_empty()),
        results: Results {
            tool: Tool {
                name: "drydock",
                version: env!("CARGO_PKG_VERSION"),
            },
            summary: Summary {
                tests: runs.len(),
                passed,
                failed: runs.len() - passed,
                pending: 0,
                skipped: 0,
                other: 0,
                start: started.as_millisecond(),
                stop: stopped.as_millisecond(),
            },
            tests: runs.iter().map(test).collect(),
        },
    }
}

fn test(run: &RunResult) -> Test {
    Test {
        name: title(run),
        status: if run.passed() { "passed" } else { "failed" },
        duration: (run.wall_seconds.max(0.0) * 1000.0).round() as u64,
        suite: vec!["drydock".to_owned(), run.place()],
        message: run.failure.as_ref().map(|failure| failure.reason.clone()),
        extra: json!({
            "seed": run.seed,
            "stage": run.stage,
            "trace": run.trace.as_ref().map(|trace| &trace.hash),
            "replay": run.replay,
            "report": run.report.as_ref().or(run.record.as_ref()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use scenario::job::Job;
    use scenario::{Scenario, StageKind};

    use super::*;

    #[test]
    fn a_document_has_the_required_fields_and_the_replay_command() {
        let job = Job::new(Scenario::new("story", "A story."), StageKind::Sim, 7);
        let broken = RunResult::broken(&job, "VM < 1".to_owned());
        let passed = RunResult {
            failure: None,
            ..broken.clone()
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let document = serde_json::to_value(document(&[broken, passed], at(1), at(3), Some("17".to_owned()))).unwrap();
        assert_eq!(document["runId"], "17");
        assert_eq!(
            (&document["reportFormat"], &document["specVersion"]),
            (&json!("CTRF"), &json!(VERSION))
        );
        let expected = json!({
            "tests": 2, "passed": 1, "failed": 1, "pending": 0, "skipped": 0, "other": 0, "start": 1000, "stop": 3000,
        });
        assert_eq!(document["results"]["summary"], expected);
        let failed = &document["results"]["tests"][0];
        assert_eq!(
            (&failed["name"], &failed["status"]),
            (&json!("story seed 7"), &json!("failed"))
        );
        assert_eq!((&failed["message"], &failed["duration"]), (&json!("VM < 1"), &json!(0)));
        assert_eq!(failed["extra"]["replay"], "drydock run story --stage sim --seed 7");
    }
}
