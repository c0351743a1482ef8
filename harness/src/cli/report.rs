//! `drydock report`: makes HTML reports from records, and files for other tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use record::export::{self, SummaryRow};
use record::{CAMPAIGN_FILE, FILE, RunRecord};

use super::output::say;
use super::{Ended, Outcome, Stop, block_on};
use crate::report::campaign::{self, CAMPAIGN_PAGE};
use crate::report::files::write_file;
use crate::report::record::{REPORT, read_from};

/// The folders in which a record is found by the name of its folder.
const FOLDERS: [&str; 3] = [".drydock/reports", ".drydock/chaos", super::run::RECORDS];
/// The commands of `drydock reports`, which is another command.
const COMMANDS_OF_REPORTS: [&str; 4] = ["list", "show", "diff", "clean"];
/// Programs that open a file with the program that the user prefers for it.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Makes the HTML report of a run from its record, or a file for another tool.
///
/// The report is one file that opens in any browser, without a server or a network. A failed run has one in its report
/// folder already; `drydock run --record` writes one for each run that passes. `drydock reports` lists the report folders.
/// `--format perfetto` writes a trace for ui.perfetto.dev, `otlp` one for OpenTelemetry, `markdown` a summary with a timeline.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock report .drydock/reports/sim-lifecycle-1 --open\n  drydock report run.drydock.json -o lifecycle.html\n  drydock report sim-lifecycle-1 --format perfetto\n  drydock report --campaign .drydock/chaos --open"
)]
pub(super) struct ReportCommand {
    /// Records, or folders with a record
    #[arg(required_unless_present = "campaign", value_name = "RECORD|FOLDER")]
    records: Vec<PathBuf>,

    /// Makes the page of the campaign in this folder of `drydock chaos` again; the default file is campaign.html in it
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["records", "format", "otlp_endpoint"])]
    campaign: Option<PathBuf>,

    /// The file; the default is report.html, trace.pftrace, otlp.json or summary.md beside the record
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What is written
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,

    /// Sends the traces to this OTLP/HTTP endpoint instead, for example http://127.0.0.1:4318
    #[arg(long, value_name = "URL", conflicts_with_all = ["output", "format", "open"])]
    otlp_endpoint: Option<http::Uri>,

    /// Opens the report in the browser
    #[arg(long)]
    open: bool,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The report
    Html,
    /// A trace for ui.perfetto.dev
    Perfetto,
    /// OpenTelemetry traces in OTLP/JSON
    Otlp,
    /// A summary with a timeline in Mermaid, for GitHub and other renderers of Markdown
    Markdown,
}

impl Format {
    /// The default name of the file.
    fn file(self) -> &'static str {
        match self {
            Self::Html => REPORT,
            Self::Perfetto => "trace.pftrace",
            Self::Otlp => "otlp.json",
            Self::Markdown => "summary.md",
        }
    }

    fn rendered(self, record: &RunRecord) -> Result<Vec<u8>, Stop> {
        Ok(match self {
            Self::Html => web::page(record)?.into_bytes(),
            Self::Perfetto => export::perfetto(record),
            Self::Otlp => json(&export::otlp(record))?,
            Self::Markdown => summary_of(record).into_bytes(),
        })
    }
}

impl ReportCommand {
    pub(super) fn execute(self) -> Ended {
        if let Some(folder) = &self.campaign {
            return self.of_campaign(folder);
        }
        if self.output.is_some() && self.records.len() > 1 {
            return Err(Stop::Usage(format!(
                "--output names one file, and there are {} records: leave it out, or give one record",
                self.records.len()
            )));
        }
        if self.open && self.format != Format::Html {
            return Err(Stop::Usage("--open opens reports: leave out --format".to_owned()));
        }
        for given in &self.records {
            let found = found(given)?;
            let record = read_from(&found)?;
            if let Some(endpoint) = &self.otlp_endpoint {
                send(endpoint, &json(&export::otlp(&record))?)?;
                continue;
            }
            let output = self
                .output
                .clone()
                .unwrap_or_else(|| beside(&found, self.format.file()));
            if output == found || is_record(&found, &output) {
                let output = output.display();
                return Err(Stop::Usage(format!(
                    "--output {output} is the record itself: name another file"
                )));
            }
            write_file(&output, &self.format.rendered(&record)?)
                .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", output.display())))?;
            say!("{}", output.display());
            if self.open {
                open(&output)?;
            }
        }
        Ok(Outcome::Passed)
    }
}

impl ReportCommand {
    /// Makes the page of a campaign.
    fn of_campaign(&self, folder: &Path) -> Ended {
        let record = campaign::read_from(folder)?;
        let output = self.output.clone().unwrap_or_else(|| folder.join(CAMPAIGN_PAGE));
        if output.canonicalize().ok() == folder.join(CAMPAIGN_FILE).canonicalize().ok() {
            let output = output.display();
            return Err(Stop::Usage(format!(
                "--output {output} is the record of the campaign: name another file"
            )));
        }
        campaign::write_page(folder, &record, &output)
            .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", output.display())))?;
        say!("{}", output.display());
        if self.open {
            open(&output)?;
        }
        Ok(Outcome::Passed)
    }
}

/// Whether a file is the given record, or the one in the given folder.
pub(super) fn is_record(given: &Path, file: &Path) -> bool {
    let record = if given.is_dir() {
        given.join(FILE)
    } else {
        given.to_owned()
    };
    let same = |path: &Path| path.canonicalize().ok();
    same(&record).is_some_and(|record| same(file) == Some(record))
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

/// The file beside a record, if the user names no other one.
fn beside(record: &Path, file: &str) -> PathBuf {
    if record.is_dir() {
        return record.join(file);
    }
    match record.file_name().is_some_and(|name| name == FILE) {
        true => record.with_file_name(file),
        // Not the extension alone: a record in a JSON file must not be overwritten by traces in JSON.
        false => match file {
            REPORT => record.with_extension("html"),
            file => record.with_extension(file),
        },
    }
}

fn json(document: &impl serde::Serialize) -> Result<Vec<u8>, Stop> {
    serde_json::to_vec(document).map_err(|error| Stop::Usage(format!("cannot encode the traces: {error}")))
}

/// The summary of one run.
fn summary_of(record: &RunRecord) -> String {
    let meta = &record.meta;
    let place = meta.place.stage.to_string();
    let row = SummaryRow {
        scenario: &meta.place.scenario,
        place: &place,
        seed: meta.place.seed,
        failure: (!meta.verdict.passed).then_some(&*meta.verdict.sentence),
        seconds: meta.wall_seconds,
        replay: &meta.replay,
        record: Some(record),
    };
    export::summary(&meta.place.scenario, &[row])
}

/// Whether a partial success of OTLP has refused spans, whose number is a text or a number.
fn is_refusal(partial: &serde_json::Value) -> bool {
    let refused = &partial["rejectedSpans"];
    !(refused.is_null() || *refused == 0 || *refused == "0" || *refused == "")
}

/// Sends traces to the path that OTLP prescribes below the endpoint.
fn send(endpoint: &http::Uri, traces: &[u8]) -> Result<(), Stop> {
    let failed = |error: &dyn std::fmt::Display| Stop::Usage(format!("--otlp-endpoint {endpoint}: {error}"));
    let request = http::Request::post("/v1/traces")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(traces.to_vec())
        .map_err(|error| failed(&error))?;
    let answer = block_on(async {
        let client = kube::Client::try_from(kube::Config::new(endpoint.clone()))?;
        client.request_text(request).await
    })?;
    let answer = answer.map_err(|error| failed(&error))?;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    if let Some(refused) = answer.get("partialSuccess").filter(|refused| is_refusal(refused)) {
        return Err(failed(&format!("the collector refuses spans: {refused}")));
    }
    say!("{} bytes are sent to {endpoint}", traces.len());
    Ok(())
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
        let [html, perfetto] = [Format::Html, Format::Perfetto].map(Format::file);
        assert_eq!(beside(folder.path(), html), folder.path().join("report.html"));
        assert_eq!(
            beside(Path::new("a/run.drydock.json"), html),
            Path::new("a/report.html")
        );
        assert_eq!(beside(Path::new("a/nightly.json"), html), Path::new("a/nightly.html"));
        assert_eq!(
            beside(Path::new("a/nightly.json"), perfetto),
            Path::new("a/nightly.trace.pftrace")
        );
        assert_eq!(
            beside(Path::new("a/nightly.json"), Format::Otlp.file()),
            Path::new("a/nightly.otlp.json")
        );
    }

    #[test]
    fn a_command_of_reports_is_named() {
        let message = found(Path::new("list")).unwrap_err().to_string();
        assert!(message.contains("drydock reports list"), "{message}");
        let message = found(Path::new("no-such-run")).unwrap_err().to_string();
        assert!(message.contains("there is no record no-such-run"), "{message}");
    }
}
