//! Writes and reads the record of a run, and makes its HTML report.

use std::io;
use std::path::{Path, PathBuf};

use ::record::{FILE, Place, Program, ReadError, Recorder, RunRecord, Session, narrative, read, without_secrets};
use clock::Clock;
use jiff::{SignedDuration, Timestamp};
use scenario::job::{Job, PLAN};
use scenario::result::RunResult;
use sim::{Entry, Trace};
use stage::StageResult;

use super::files::{read_record, write_file};
use super::trace;

/// The file with the HTML report.
pub const REPORT: &str = "report.html";
/// The variables in which CI systems put the commit that is tested.
const COMMITS: [&str; 2] = ["GITHUB_SHA", "CI_COMMIT_SHA"];

/// What is known of a run that returned.
#[derive(Debug)]
pub struct Ran<'a> {
    /// What the stage knows.
    pub stage: &'a StageResult,
    /// The record of the scenario; `None`: it did not start.
    pub recorder: Option<Recorder>,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The folder contains no record.
    #[error("{path} contains no {FILE}: give a report folder of a failed run, or run the scenario with --record")]
    NoRecord {
        /// The folder.
        path: PathBuf,
    },
    /// The file is not a record.
    #[error("{path}: {source}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ReadError,
    },
}

/// Writes the record, the report and the plan of a run that passed into its folder.
///
/// # Errors
/// When they cannot be written.
pub fn write_passed(folder: &Path, record: &RunRecord) -> io::Result<()> {
    write_file(&folder.join(PLAN), record.meta.plan.as_bytes())?;
    write(folder, record)
}

/// Writes a record and its report into a folder.
pub(super) fn write(folder: &Path, record: &RunRecord) -> io::Result<()> {
    write_file(&folder.join(FILE), &serde_json::to_vec(record)?)?;
    write_file(&folder.join(REPORT), web::page(record)?.as_bytes())
}

/// The lines of the narrative of a run, without times.
pub fn texts(record: &RunRecord) -> Vec<String> {
    narrative(record).into_iter().map(|line| line.text).collect()
}

/// The complete record of a run.
///
/// # Errors
/// When the plan has no YAML form.
pub fn complete(job: &Job, result: &RunResult, ran: Option<Ran<'_>>) -> io::Result<RunRecord> {
    let (stage, recorder) = match ran {
        Some(Ran { stage, recorder }) => (Some(stage), recorder),
        None => (None, None),
    };
    // A run that did not start has no stage clock; the wall clock gives its start.
    let mut recorder = recorder.unwrap_or_else(|| Recorder::new(Clock::wall().now()));
    if let Some(stage) = stage {
        let events = trace::stage_events(&stage.processes, &stage.scheduled, &job.plan.disturbances);
        recorder.add_stage_events(events, end_of(&recorder, result));
        let logs = stage.logs.iter();
        recorder.add_logs(logs.map(|(name, content)| (name.as_str(), content.as_slice())));
        if !stage.entries.is_empty() {
            add_causes(&mut recorder, &stage.entries);
        }
    }
    Ok(recorder.finish(job, result, plan(job)?, program()))
}

/// The end of a run by the clock of its stage.
fn end_of(recorder: &Recorder, result: &RunResult) -> Timestamp {
    let lasted = SignedDuration::try_from_secs_f64(result.stage_seconds).unwrap_or(SignedDuration::MAX);
    recorder.started().saturating_add(lasted).unwrap_or(Timestamp::MAX)
}

fn add_causes(recorder: &mut Recorder, trace: &[Entry]) {
    let missing = trace.first().map_or(0, |entry| entry.number);
    recorder.add_causes(&trace::entries(trace), missing);
}

/// The plan of a job as YAML, without the data of Secrets.
///
/// # Errors
/// When the plan has no YAML form.
pub fn plan(job: &Job) -> io::Result<String> {
    let plan = without_secrets(serde_json::to_value(&job.plan)?);
    serde_saphyr::to_string(&plan).map_err(io::Error::other)
}

fn program() -> Program {
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: COMMITS.iter().find_map(|name| std::env::var(name).ok()),
    }
}

/// The record so far of a simulated run that is in progress, with the processes and causes that its trace explains. `now` is the
/// virtual time, `plan` the plan of the job as YAML.
pub fn so_far(job: &Job, mut recorder: Recorder, trace: Option<&Trace>, now: Timestamp, plan: String) -> RunRecord {
    if let Some(trace) = trace {
        recorder.add_stage_events(trace::stage_events(&trace.process_entries(), &[], &[]), now);
        add_causes(&mut recorder, &trace.entries());
    }
    let session = Session {
        place: Place {
            scenario: job.plan.scenario.name.clone(),
            about: job.plan.scenario.about.clone(),
            stage: job.stage,
            target: job.target,
            seed: job.plan.seed,
            mutant: job.plan.mutant.clone(),
            controller: None,
        },
        plan,
        sentence: "The run is in progress".to_owned(),
        replay: job.replay(&job.reports.join(job.report_name())),
        program: program(),
    };
    recorder.so_far(now, session)
}

/// Reads a record: a file, or the one in a folder.
///
/// # Errors
/// See [`RecordError`].
pub fn read_from(path: &Path) -> Result<RunRecord, RecordError> {
    let file = match path.is_dir() {
        true => path.join(FILE),
        false => path.to_owned(),
    };
    let cannot = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound if path.is_dir() => RecordError::NoRecord { path: path.to_owned() },
        _ => RecordError::Read {
            path: file.clone(),
            source,
        },
    };
    let invalid = |source| RecordError::Invalid {
        path: file.clone(),
        source,
    };
    let text = read_record(&file, FILE).map_err(cannot)?.map_err(invalid)?;
    read(&text).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_record_and_a_file_of_another_kind_are_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let message = read_from(folder.path()).unwrap_err().to_string();
        assert!(message.contains("run the scenario with --record"), "{message}");
        std::fs::write(folder.path().join(FILE), "{\"version\": 1, \"meta\": {").unwrap();
        let message = read_from(folder.path()).unwrap_err().to_string();
        assert!(message.contains("ends in the middle"), "{message}");
    }

    #[test]
    fn a_huge_file_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.json");
        std::fs::File::create(&path).unwrap().set_len(2 << 30).unwrap();
        let message = read_from(&path).unwrap_err().to_string();
        assert!(message.contains("2147483648 bytes"), "{message}");
    }
}
