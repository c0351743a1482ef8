//! `drydock report`: makes HTML reports from records.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use record::FILE;

use super::output::say;
use super::{Ended, Outcome, Stop};
use crate::report::files::write_file;
use crate::report::record::{REPORT, read_from};

/// The folders in which a record is found by the name of its folder.
const FOLDERS: [&str; 3] = [".drydock/reports", ".drydock/chaos", super::run::RECORDS];
/// The commands of `drydock reports`, which is another command.
const COMMANDS_OF_REPORTS: [&str; 4] = ["list", "show", "diff", "clean"];
/// Programs that open a file with the program that the user prefers for it.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Makes the HTML report of a run from its record.
///
/// The report is one file that opens in any browser, without a server or a network. A failed run has one in its report
/// folder already; `drydock run --record` writes one for each run that passes. `drydock reports` lists the report folders.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock report .drydock/reports/sim-lifecycle-1 --open\n  drydock report run.drydock.json -o lifecycle.html"
)]
pub(super) struct ReportCommand {
    /// Records, or folders with a record
    #[arg(required = true, value_name = "RECORD|FOLDER")]
    records: Vec<PathBuf>,

    /// The HTML file; the default is report.html beside the record
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Opens the report in the browser
    #[arg(long)]
    open: bool,
}

impl ReportCommand {
    pub(super) fn execute(self) -> Ended {
        if self.output.is_some() && self.records.len() > 1 {
            return Err(Stop::Usage(format!(
                "--output names one file, and there are {} records: leave it out, or give one record",
                self.records.len()
            )));
        }
        for given in &self.records {
            let found = found(given)?;
            let page = web::page(&read_from(&found)?)?;
            let output = self.output.clone().unwrap_or_else(|| beside(&found));
            write_file(&output, page.as_bytes())
                .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", output.display())))?;
            say!("{}", output.display());
            if self.open {
                open(&output)?;
            }
        }
        Ok(Outcome::Passed)
    }
}

/// The record: a path, or the name of a report folder.
pub(super) fn found(given: &Path) -> Result<PathBuf, Stop> {
    if given.exists() {
        return Ok(given.to_owned());
    }
    let below = FOLDERS.iter().map(|folder| Path::new(folder).join(given));
    if let Some(path) = below.into_iter().find(|path| path.join(FILE).exists()) {
        return Ok(path);
    }
    let name = given.display();
    Err(Stop::Usage(match given.to_str() {
        Some(command) if COMMANDS_OF_REPORTS.contains(&command) => {
            format!("`drydock report` makes the HTML report of a record; report folders have `drydock reports {name}`")
        }
        _ => format!(
            "there is no record {name}: give a {FILE}, its folder, or a name that `drydock reports list` prints"
        ),
    }))
}

/// The report of a record, if the user names no other file.
fn beside(record: &Path) -> PathBuf {
    if record.is_dir() {
        return record.join(REPORT);
    }
    match record.file_name().is_some_and(|name| name == FILE) {
        true => record.with_file_name(REPORT),
        false => record.with_extension("html"),
    }
}

/// Opens a file with the user's browser.
fn open(file: &Path) -> Result<(), Stop> {
    let opener = OPENERS.iter().find_map(|name| which::which(name).ok());
    let Some(opener) = opener else {
        return Err(Stop::Usage(format!(
            "--open: none of {} is installed; open {} in a browser",
            OPENERS.join(", "),
            file.display()
        )));
    };
    let mut command = Command::new(&opener);
    command
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command
        .status()
        .map_err(|error| Stop::Usage(format!("--open: cannot start {}: {error}", opener.display())))?;
    match status.success() {
        true => Ok(()),
        false => Err(Stop::Usage(format!(
            "--open: {} failed ({status}); open {} in a browser",
            opener.display(),
            file.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_beside_its_record() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(beside(folder.path()), folder.path().join("report.html"));
        assert_eq!(beside(Path::new("a/run.drydock.json")), Path::new("a/report.html"));
        assert_eq!(beside(Path::new("a/nightly.json")), Path::new("a/nightly.html"));
    }

    #[test]
    fn a_command_of_reports_is_named() {
        let message = found(Path::new("list")).unwrap_err().to_string();
        assert!(message.contains("drydock reports list"), "{message}");
        let message = found(Path::new("no-such-run")).unwrap_err().to_string();
        assert!(message.contains("there is no record no-such-run"), "{message}");
    }
}
