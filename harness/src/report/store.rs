//! The report folders below a folder: their numbers, and which of their scenarios pass now.
//!
//! The first report of a run has the name of its job; further ones have a number after a point, as in
//! `sim-lifecycle-1.2`. No report replaces another one, so that files that a user adds to a folder stay there.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;
use scenario::job::{Job, PLAN};
use scenario::result::RunResult;
use scenario::signature::Cause;
use serde::{Deserialize, Serialize};

use super::files::{RESULT, write_file};

/// The file that marks a folder whose scenario passes now.
const PASSING: &str = "passing.json";
/// How deep report folders are below the folder of all reports: reports of known bugs have folders of their own.
const DEPTH: usize = 4;

/// The mark of a folder whose scenario passes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Passing {
    /// When it passed last.
    pub at: Timestamp,
    /// Whether the plan was the one of the report; otherwise the scenario was changed.
    pub same_plan: bool,
}

/// A report folder.
#[derive(Clone, Debug)]
pub struct Report {
    /// The folder.
    pub path: PathBuf,
    /// When it was written.
    pub written: Timestamp,
    /// The failed run.
    pub result: RunResult,
    /// Set if the same run passes now.
    pub passing: Option<Passing>,
}

/// Errors of reading a report folder.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder or a file of it cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The result is not one that this version writes.
    #[error("{path} is not the result of a run: {source}")]
    NoResult {
        /// The path.
        path: String,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Report {
    /// Reads a report folder.
    ///
    /// # Errors
    /// See [`ReportError`].
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let file = path.join(RESULT);
        let cannot = |source| ReportError::Read {
            path: file.display().to_string(),
            source,
        };
        let text = fs::read(&file).map_err(cannot)?;
        let written = fs::metadata(&file)
            .and_then(|metadata| metadata.modified())
            .map_err(cannot)?;
        let result = serde_json::from_slice(&text).map_err(|source| ReportError::NoResult {
            path: file.display().to_string(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            written: Timestamp::try_from(written).unwrap_or(Timestamp::MIN),
            result,
            passing: passing(path),
        })
    }

    /// The name of the folder.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether the run failed only because it ended in another state than without disturbance.
    fn is_about_the_end(&self) -> bool {
        let failure = self.result.failure.as_ref();
        failure.is_some_and(|failure| failure.signature.cause == Cause::End)
    }

    /// Whether it is about the same run: the same scenario, stage, seed and disturbances (which the names have in
    /// common), the same controller and the same defect.
    fn is_of(&self, result: &RunResult) -> bool {
        self.result.mutant == result.mutant && self.result.controller == result.controller
    }
}

/// The mark of a folder, if it has one.
fn passing(path: &Path) -> Option<Passing> {
    serde_json::from_slice(&fs::read(path.join(PASSING)).ok()?).ok()
}

/// Creates the report folder of a failed run, with the next free number.
///
/// # Errors
/// When it cannot be created.
pub(super) fn create(job: &Job) -> io::Result<PathBuf> {
    let name = job.report_name();
    fs::create_dir_all(&job.reports)?;
    if job.expected_to_fail {
        let folder = job.reports.join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&folder)?;
        return Ok(folder);
    }
    create_numbered(&job.reports, &name)
}

/// Creates a folder of that name in `parent`, with a number after a point if there is one.
///
/// # Errors
/// If it cannot be created.
pub fn create_numbered(parent: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let numbers = numbered(parent, name)?.into_iter().map(|(number, _)| number);
    let mut number = numbers.max().unwrap_or(0).saturating_add(1);
    loop {
        let folder = parent.join(match number {
            1 => name.to_owned(),
            number => format!("{name}.{number}"),
        });
        match fs::create_dir(&folder) {
            // Another process took the number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number = number.saturating_add(1),
            created => return created.map(|()| folder),
        }
    }
}

/// Marks the reports of a run that passes now. `compared`: its end is that of the run without disturbance; otherwise reports
/// about another end stay as they are.
///
/// # Errors
/// When a folder cannot be read or written.
pub(crate) fn mark_passing(job: &Job, result: &RunResult, now: Timestamp, compared: bool) -> io::Result<()> {
    let mut plan = None;
    let of_run = of_run(job, result)?;
    for report in of_run
        .into_iter()
        .filter(|report| compared || !report.is_about_the_end())
    {
        let plan = plan.get_or_insert_with(|| job.plan.to_yaml().unwrap_or_default());
        let same_plan = fs::read_to_string(report.path.join(PLAN)).is_ok_and(|text| text == *plan);
        let mark = serde_json::to_vec_pretty(&Passing { at: now, same_plan })?;
        write_file(&report.path.join(PASSING), &mark)?;
    }
    Ok(())
}

/// Removes the marks of a run that fails again.
pub(super) fn unmark(job: &Job, result: &RunResult) -> io::Result<()> {
    for report in of_run(job, result)?
        .into_iter()
        .filter(|report| report.passing.is_some())
    {
        fs::remove_file(report.path.join(PASSING))?;
    }
    Ok(())
}

/// The reports of the same run.
fn of_run(job: &Job, result: &RunResult) -> io::Result<Vec<Report>> {
    let folders = numbered(&job.reports, &job.report_name())?;
    let reports = folders.iter().filter_map(|(_, folder)| Report::read(folder).ok());
    Ok(reports.filter(|report| report.is_of(result)).collect())
}

/// The existing folders of a name, with their numbers.
fn numbered(reports: &Path, name: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(reports) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|entry| number_of(entry, name));
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// The number of a folder, if it has that name.
fn number_of(folder: &str, name: &str) -> Option<u64> {
    match folder.strip_prefix(name)? {
        "" => Some(1),
        rest => rest.strip_prefix('.')?.parse().ok(),
    }
}

/// All reports below a folder, the oldest first. Folders that contain no report are ignored.
///
/// # Errors
/// When a report cannot be read.
pub fn all(folder: &Path) -> Result<Vec<Report>, ReportError> {
    let mut found = Vec::new();
    collect(folder, DEPTH, &mut found)?;
    found.sort_by(|one, other| (one.written, &one.path).cmp(&(other.written, &other.path)));
    Ok(found)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<Report>) -> Result<(), ReportError> {
    let cannot = |source| ReportError::Read {
        path: folder.display().to_string(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(cannot)?,
    };
    for entry in entries {
        let entry = entry.map_err(cannot)?;
        if !entry.file_type().map_err(cannot)?.is_dir() {
            continue;
        }
        let path = entry.path();
        if path.join(RESULT).exists() {
            found.push(Report::read(&path)?);
        } else if depth > 1 {
            collect(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

/// The files of a report folder with their sizes in bytes, by name.
///
/// # Errors
/// When the folder cannot be read.
pub fn files(report: &Path) -> Result<Vec<(String, u64)>, ReportError> {
    let cannot = |source| ReportError::Read {
        path: report.display().to_string(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(report).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let size = entry.metadata().map_err(cannot)?.len();
        if entry.file_name() != OsStr::new(PASSING) {
            files.push((entry.file_name().to_string_lossy().into_owned(), size));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
