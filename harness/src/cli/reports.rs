//! `drydock reports`: lists, prints, compares and removes the report folders of failed runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use clock::Clock;
use jiff::Timestamp;
use judge::evaluate::{between, short};
use mcm_api::GoDuration;
use scenario::StageKind;
use scenario::closest::similar;
use scenario::result::FailureResult;
use serde::Serialize;
use serde_json::{Value, json};
use terminal::{Column, OutputFormat, Row, render, structured};

use super::output::{print, say};
use super::{Ended, Outcome, Stop};
use crate::report::diff::diff;
use crate::report::store::{self, Passing, Report};

/// The default folders with reports.
const FOLDERS: [&str; 2] = [".drydock/reports", ".drydock/chaos"];
/// Number of groups of lines that a difference shows without `--full`.
const MOST_GROUPS: usize = 10;
/// Number of lines of the narrative that `show` prints without `--full`.
const MOST_LINES: usize = 30;

/// Lists, prints, compares and removes the report folders of failed runs; `drydock report` makes HTML.
#[derive(Args, Debug)]
pub(super) struct Reports {
    #[command(subcommand)]
    command: Command,

    /// The folder with reports; may be given several times. The default is .drydock/reports and .drydock/chaos
    #[arg(long = "report", value_name = "FOLDER", global = true)]
    folders: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the reports, the oldest first
    #[command(after_help = "Examples:\n  drydock reports list\n  drydock reports list drain -o wide")]
    List {
        /// Only reports of these scenarios
        scenarios: Vec<String>,
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Prints a report: why the run failed, whether it passes now, how to repeat it, and the end of its narrative
    #[command(after_help = "Example:\n  drydock reports show sim-lifecycle-1 --full")]
    Show {
        /// The name of its folder, or the folder
        report: PathBuf,
        /// Prints the whole narrative
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Prints the differences between two reports: their results, plans and narratives
    #[command(after_help = "Example:\n  drydock reports diff sim-lifecycle-1 sim-lifecycle-1.2")]
    Diff {
        /// The name of the first report's folder, or the folder
        one: PathBuf,
        /// The second one
        other: PathBuf,
        /// Prints all differences
        #[arg(long)]
        full: bool,
    },
    /// Removes reports; without arguments those whose run passes now
    #[command(
        after_help = "Examples:\n  drydock reports clean                        # those whose run passes now\n  \
                      drydock reports clean --older-than 168h      # those that are older than a week\n  \
                      drydock reports clean sim-lifecycle-1.2"
    )]
    Clean {
        /// The names of their folders, or the folders
        #[arg(conflicts_with_all = ["all", "older_than"])]
        reports: Vec<PathBuf>,
        /// All reports
        #[arg(long, conflicts_with = "older_than")]
        all: bool,
        /// All reports that are older
        #[arg(long, value_name = "DURATION")]
        older_than: Option<GoDuration>,
        /// Prints what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}

impl Reports {
    pub(super) fn execute(self) -> Ended {
        let all = self.all()?;
        match &self.command {
            Command::List { scenarios, output } => {
                let clock = Clock::wall();
                let rows: Vec<ReportRow<'_>> = all
                    .iter()
                    .filter(|report| scenarios.is_empty() || scenarios.contains(&report.result.scenario))
                    .map(|report| ReportRow::of(report, &clock))
                    .collect();
                print(&render(output.format, &rows)?)
            }
            Command::Show { report, full, output } => {
                let report = find(&all, report)?;
                let text = structured(output.format, &detailed(report)?)?;
                print(&text.map_or_else(|| shown(report, *full), Ok)?)
            }
            Command::Diff { one, other, full } => {
                let most = if *full { usize::MAX } else { MOST_GROUPS };
                print(&diff(find(&all, one)?, find(&all, other)?, most)?)
            }
            Command::Clean {
                reports,
                all: every,
                older_than,
                dry_run,
            } => {
                let chosen = match reports.as_slice() {
                    [] => all
                        .iter()
                        .filter(|report| is_old(report, *every, *older_than))
                        .collect(),
                    names => names
                        .iter()
                        .map(|name| find(&all, name))
                        .collect::<Result<Vec<_>, _>>()?,
                };
                clean(&chosen, all.len(), *dry_run)
            }
        }
    }

    fn all(&self) -> Result<Vec<Report>, Stop> {
        let mut all = Vec::new();
        let folders: Vec<&Path> = match self.folders.as_slice() {
            [] => FOLDERS.iter().map(Path::new).collect(),
            given => {
                if let Some(missing) = given.iter().find(|folder| !folder.is_dir()) {
                    return Err(Stop::Usage(format!(
                        "--report: there is no folder {}",
                        missing.display()
                    )));
                }
                given.iter().map(PathBuf::as_path).collect()
            }
        };
        for folder in folders {
            all.extend(store::all(folder)?);
        }
        all.sort_by(|one, other| (one.written, &one.path).cmp(&(other.written, &other.path)));
        Ok(all)
    }
}

/// The report of that name or path.
fn find<'a>(all: &'a [Report], wanted: &Path) -> Result<&'a Report, Stop> {
    let is = |report: &&Report| report.path == wanted || Path::new(&report.name()) == wanted;
    let found: Vec<&Report> = all.iter().filter(is).collect();
    match found.as_slice() {
        [report] => Ok(report),
        [] => {
            let names: Vec<String> = all.iter().map(Report::name).collect();
            let near = similar(&wanted.to_string_lossy(), names.iter().map(String::as_str));
            Err(Stop::Usage(match near.as_slice() {
                [] => format!(
                    "there is no report {}; `drydock reports list` lists them",
                    wanted.display()
                ),
                near => format!(
                    "there is no report {}; near it are: {}",
                    wanted.display(),
                    near.join(", ")
                ),
            }))
        }
        several => {
            let paths: Vec<String> = several.iter().map(|report| report.path.display().to_string()).collect();
            Err(Stop::Usage(format!(
                "there are several reports {}: write one of {}",
                wanted.display(),
                paths.join(", ")
            )))
        }
    }
}

/// Whether `clean` removes a report.
fn is_old(report: &Report, all: bool, older_than: Option<GoDuration>) -> bool {
    match older_than {
        Some(age) => between(report.written, Clock::wall().now()) > age.0,
        None => all || report.passing.is_some(),
    }
}

fn clean(chosen: &[&Report], all: usize, dry_run: bool) -> Ended {
    for report in chosen {
        let path = report.path.display();
        if dry_run {
            say!("would remove {path}");
            continue;
        }
        fs::remove_dir_all(&report.path).map_err(|error| Stop::Usage(format!("cannot remove {path}: {error}")))?;
        say!("removed {path}");
    }
    let verb = if dry_run { "would be removed" } else { "removed" };
    say!("{} of {all} reports {verb}", chosen.len());
    Ok(Outcome::Passed)
}

/// What a report's run violates, in one word.
fn cause(report: &Report) -> String {
    let failure = report.result.failure.as_ref();
    failure.map_or_else(String::new, |failure| failure.signature.cause.to_string())
}

fn now(report: &Report) -> &'static str {
    match report.passing {
        None => "fails",
        Some(passing) if passing.same_plan => "passes",
        Some(_) => "passes, changed",
    }
}

/// An age in its largest unit.
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn shown(report: &Report, full: bool) -> Result<String, Stop> {
    let result = &report.result;
    let mut lines = vec![
        format!("report:    {}", report.path.display()),
        format!("written:   {}", report.written.strftime("%Y-%m-%d %H:%M:%S UTC")),
        format!(
            "scenario:  {} on {} with seed {}",
            result.scenario,
            result.place(),
            result.seed
        ),
    ];
    lines.extend(result.mutant.iter().map(|mutant| format!("defect:    {mutant}")));
    lines.extend(result.controller.iter().map(|command| format!("controller: {command}")));
    if let Some(failure) = &result.failure {
        let after = short(Duration::from_secs_f64(failure.after_seconds.max(0.0)));
        lines.push(format!(
            "failed:    after {after} in step {}: {}",
            failure.step, failure.reason
        ));
        lines.push(format!("broken:    {}", failure.signature));
    }
    let disturbances = result.disturbances.iter();
    lines.extend(disturbances.map(|one| format!("disturbed: {} ({} hits)", one.what, one.hits)));
    lines.push(match report.passing {
        None => "now:       it did not pass since then".to_owned(),
        Some(passing) => format!(
            "now:       it passes since {}{}",
            passing.at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            if passing.same_plan {
                ""
            } else {
                ", with a changed scenario"
            }
        ),
    });
    lines.push(format!("replay:    {}", result.replay));
    let files: Vec<String> = store::files(&report.path)?
        .into_iter()
        .map(|(name, size)| format!("{name} ({} kB)", size.div_ceil(1000)))
        .collect();
    lines.push(format!("files:     {}", files.join(", ")));
    let narrative = &result.narrative;
    let first = match full {
        true => 0,
        false => narrative.len().saturating_sub(MOST_LINES),
    };
    lines.push(String::new());
    lines.push(match first {
        0 => "what happened:".to_owned(),
        _ => format!(
            "what happened (the last {} of {} lines; `--full` prints all):",
            narrative.len() - first,
            narrative.len()
        ),
    });
    lines.extend(narrative[first..].iter().map(|line| format!("  {line}")));
    Ok(lines.join("\n") + "\n")
}

/// A report in the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportRow<'a> {
    name: String,
    folder: &'a Path,
    written: Timestamp,
    scenario: &'a str,
    stage: StageKind,
    seed: u64,
    failure: Option<&'a FailureResult>,
    passing: Option<Passing>,
    replay: &'a str,
    /// How the table shows age and state.
    #[serde(skip)]
    shown: [String; 3],
}

impl<'a> ReportRow<'a> {
    fn of(report: &'a Report, clock: &Clock) -> Self {
        let result = &report.result;
        Self {
            name: report.name(),
            folder: &report.path,
            written: report.written,
            scenario: &result.scenario,
            stage: result.stage,
            seed: result.seed,
            failure: result.failure.as_ref(),
            passing: report.passing,
            replay: &result.replay,
            shown: [
                age(between(report.written, clock.now())),
                cause(report),
                now(report).to_owned(),
            ],
        }
    }
}

impl Row for ReportRow<'_> {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("REPORT"),
        Column::Shown("AGE"),
        Column::Shown("BROKEN"),
        Column::Shown("NOW"),
        Column::Text("REASON"),
        Column::Wide("FOLDER"),
        Column::Wide("REPLAY"),
    ];
    const EMPTY: &'static str = "there are no reports";

    fn cells(&self) -> Vec<String> {
        let [age, broken, now] = self.shown.clone();
        let reason = self.failure.map(|failure| failure.reason.clone());
        vec![
            self.name.clone(),
            age,
            broken,
            now,
            reason.unwrap_or_default(),
            self.folder.display().to_string(),
            self.replay.to_owned(),
        ]
    }
}

fn detailed(report: &Report) -> Result<Value, Stop> {
    let mut value = serde_json::to_value(ReportRow::of(report, &Clock::wall()))?;
    value["result"] = serde_json::to_value(&report.result)?;
    let files = store::files(&report.path)?.into_iter();
    value["files"] = files
        .map(|(name, bytes)| json!({ "name": name, "bytes": bytes }))
        .collect();
    Ok(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(59, "59s")]
    #[case(600, "10m")]
    #[case(7_200, "2h")]
    #[case(1_000_000, "11d")]
    fn an_age_has_one_unit(#[case] seconds: u64, #[case] expected: &str) {
        assert_eq!(age(Duration::from_secs(seconds)), expected);
    }
}
