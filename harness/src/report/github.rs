//! The job summary of GitHub Actions.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ::record::RunRecord;
use ::record::export::{SummaryRow, summary};
use scenario::result::RunResult;

use super::record::read_from;

/// The variable in which GitHub Actions puts the path of the job's summary.
const FILE: &str = "GITHUB_STEP_SUMMARY";
/// The maximum number of records that are read: the summary shows no more timelines.
const MOST_RECORDS: usize = 5;

/// Appends the results to the job's summary, if this process is part of a job of GitHub Actions.
///
/// # Errors
/// When the file cannot be written, with its path.
pub fn append(title: &str, runs: &[RunResult]) -> Result<(), (PathBuf, io::Error)> {
    let Some(path) = std::env::var_os(FILE).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let path = PathBuf::from(path);
    append_to(&path, title, runs).map_err(|error| (path, error))
}

fn append_to(path: &Path, title: &str, runs: &[RunResult]) -> io::Result<()> {
    let failed = runs.iter().filter(|run| !run.passed()).take(MOST_RECORDS);
    let records: Vec<(&RunResult, RunRecord)> = failed
        .filter_map(|run| Some((run, read_from(run.report.as_ref()?).ok()?)))
        .collect();
    let places: Vec<String> = runs.iter().map(RunResult::place).collect();
    let rows: Vec<SummaryRow<'_>> = runs
        .iter()
        .zip(&places)
        .map(|(run, place)| SummaryRow {
            scenario: &run.scenario,
            place,
            seed: run.seed,
            failure: (!run.passed()).then(|| run.failure.as_ref().map_or("it failed", |failure| &failure.reason)),
            seconds: run.wall_seconds,
            replay: &run.replay,
            record: records
                .iter()
                .find(|(of, _)| std::ptr::eq(*of, run))
                .map(|(_, record)| record),
        })
        .collect();
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(summary(title, &rows).as_bytes())
}

#[cfg(test)]
mod tests {
    use scenario::job::Job;
    use scenario::{Scenario, StageKind};

    use super::*;

    #[test]
    fn results_are_appended_to_the_summary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.md");
        std::fs::write(&path, "before\n").unwrap();
        let job = Job::new(Scenario::new("one", "about"), StageKind::Sim, 7);
        append_to(&path, "drydock run", &[RunResult::broken(&job, "VM < 1".to_owned())]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n## drydock run\n\n"), "{text}");
        assert!(
            text.contains("| one | sim | 7 |") && text.contains("VM &lt; 1"),
            "{text}"
        );
    }
}
