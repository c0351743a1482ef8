//! `drydock driver test`: runs the contract suite against a driver, and prints and writes the results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use driver_suite::{CASES, Case, CaseResult, Inputs, Limits, Outcome as Verdict, Report, Session, random_prefix};
use mcm::DriverTlsOptions;
use mcm_api::GoDuration;
use mcm_driver::channel::check_connection;
use mcm_driver::client::GrpcDriver;
use scenario::closest::similar;
use serde::Serialize;
use terminal::{Column, Format, Row, failure, render};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::output::{inform, say};
use super::{Ended, Interrupt, Outcome, Stop, block_on, interrupted};
use crate::report::driver::write;

/// The maximum length of `--prefix`: a machine name with it must fit into a label.
const LONGEST_PREFIX: usize = 40;

#[derive(Args, Debug)]
pub(super) struct DriverCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Runs the contract suite against a driver: creates and deletes about twenty VMs of a class
    ///
    /// Each case checks one rule of docs/using/writing-a-driver.md, and deletes the VMs that it creates, also after a
    /// failure and after Ctrl-C. Exit status: 0 all rules hold, 1 a case failed or a VM is left over, 2 the suite
    /// cannot run, 130 or 143 it was interrupted.
    Test(Test),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock driver test --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml --junit driver.xml\n  drydock driver test --list"
)]
struct Test {
    /// Address of the driver: grpc://HOST:PORT on loopback, grpcs://HOST:PORT anywhere
    #[arg(long, value_name = "ADDRESS", required_unless_present = "list")]
    driver: Option<String>,

    /// A MachineClass in YAML, whose provider spec contains the tag kubernetes.io/cluster/NAME of a test cluster
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    class: Option<PathBuf>,

    /// The Secret that the class names, in YAML, with data or stringData; given twice if it names two
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    secret: Vec<PathBuf>,

    /// Limit for the answer of a call. The contract allows ten minutes for CreateMachine and two for others, which
    /// are the upper bounds of this flag
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    timeout: GoDuration,

    /// How long the cloud may take until a created VM is listed, and until a deleted VM is gone
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    settle: GoDuration,

    /// Begin of the names of the suite's machines; must differ between runs against one cloud [default: random]
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Runs only this case; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Writes the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Lists the cases and their rules instead of running them
    #[arg(long)]
    list: bool,

    /// The format of the list
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t, requires = "list")]
    output: Format,

    /// TLS to the driver.
    #[command(flatten)]
    tls: DriverTlsOptions,
}

impl DriverCommand {
    pub(super) fn execute(self) -> Ended {
        let Action::Test(test) = self.action;
        test.execute()
    }
}

impl Test {
    fn execute(self) -> Ended {
        let cases = selected(&self.only)?;
        if self.list {
            let rows: Vec<CaseRow> = cases.iter().map(CaseRow::of).collect();
            return super::output::print(&render(self.output, &rows)?);
        }
        // clap requires the three flags without --list.
        let address = self.driver.clone().unwrap_or_default();
        let inputs = Inputs::read(&self.class.clone().unwrap_or_default(), &self.secret)?;
        let prefix = self.prefix()?;
        let limits = Limits {
            call: positive("timeout", self.timeout)?,
            settle: self.settle.0,
        };
        let report = block_on(async {
            let driver = self.connect(&address).await?;
            let session = Session::new(Arc::new(driver), inputs, limits, prefix)?;
            Ok::<_, Stop>(run(&session, &cases).await)
        })??;
        let (report, interrupt) = report;
        summarise(&report);
        if let Some(file) = &self.junit {
            let error = |error| Stop::Usage(format!("--junit {}: cannot write the file: {error}", file.display()));
            write(file, &report).map_err(error)?;
        }
        let outcome = if report.is_green() {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        Ok(outcome.or_interrupted(interrupt))
    }

    fn prefix(&self) -> Result<String, Stop> {
        let Some(prefix) = &self.prefix else {
            return Ok(random_prefix()?);
        };
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let begins = prefix.starts_with(|letter: char| letter.is_ascii_lowercase());
        if begins && prefix.len() <= LONGEST_PREFIX && prefix.bytes().all(known) {
            return Ok(prefix.clone());
        }
        Err(Stop::Usage(format!(
            "--prefix {prefix:?} cannot begin a machine name: use up to {LONGEST_PREFIX} lower-case letters, digits and \
             dashes, beginning with a letter"
        )))
    }

    async fn connect(&self, address: &str) -> Result<GrpcDriver<Channel>, Stop> {
        let tls = self
            .tls
            .validate(address)
            .map_err(|error| Stop::Usage(error.0.join("; ")))?;
        check_connection(address, tls.clone()).await.map_err(|error| {
            Stop::Usage(format!(
                "--driver {address} cannot be reached: {error}: start the driver, or correct the address"
            ))
        })?;
        Ok(match tls {
            Some(tls) => GrpcDriver::connect_tls(address, tls),
            None => GrpcDriver::connect(address),
        }?)
    }
}

/// The cases of these names, in the order in which they run; without names all.
fn selected(names: &[String]) -> Result<Vec<Case>, Stop> {
    if let Some(unknown) = names.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        let near = similar(unknown, CASES.iter().map(|case| case.name));
        return Err(Stop::Usage(match near.as_slice() {
            [] => format!("--only: there is no case {unknown:?}; `drydock driver test --list` lists them"),
            near => format!("--only: there is no case {unknown:?}; near it are: {}", near.join(", ")),
        }));
    }
    let cases = CASES
        .iter()
        .filter(|case| names.is_empty() || names.iter().any(|name| name == case.name));
    Ok(cases.copied().collect())
}

fn positive(flag: &str, duration: GoDuration) -> Result<Duration, Stop> {
    match duration.0 {
        Duration::ZERO => Err(Stop::Usage(format!("--{flag} must be longer than 0s, for example 60s"))),
        duration => Ok(duration),
    }
}

/// Runs the cases; Ctrl-C ends the run after its cleanup.
async fn run(session: &Session, cases: &[Case]) -> (Report, Option<Interrupt>) {
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    let waiting = tokio::spawn(async move {
        let interrupt = interrupted().await;
        crate::cli::output::complain!("stopping: the VMs of this run are deleted first");
        cancel.cancel();
        interrupt
    });
    let report = driver_suite::run(session, cases, &stop, print).await;
    let interrupt = match stop.is_cancelled() {
        true => waiting.await.ok(),
        false => {
            waiting.abort();
            None
        }
    };
    (report, interrupt)
}

/// A case in the list.
#[derive(Debug, Serialize)]
struct CaseRow {
    name: &'static str,
    rule: &'static str,
}

impl CaseRow {
    fn of(case: &Case) -> Self {
        Self {
            name: case.name,
            rule: case.rule,
        }
    }
}

impl Row for CaseRow {
    const COLUMNS: &'static [Column] = &[Column::Shown("CASE"), Column::Shown("RULE")];

    fn cells(&self) -> Vec<String> {
        vec![self.name.to_owned(), self.rule.to_owned()]
    }
}

fn print(result: &CaseResult) {
    let (verdict, text) = match &result.outcome {
        Verdict::Passed => ("ok", format!("{:.2} s", result.duration.as_secs_f64())),
        Verdict::Failed(reason) => ("FAIL", reason.clone()),
        Verdict::Skipped(reason) => ("skip", reason.clone()),
    };
    let line = format!("{verdict:4}  {:width$}  {text}", result.name, width = width());
    match &result.outcome {
        Verdict::Failed(_) => say!("{}", failure(&line)),
        Verdict::Passed | Verdict::Skipped(_) => inform!("{line}"),
    }
}

/// The width of the column with all names.
fn width() -> usize {
    CASES.iter().map(|case| case.name.len()).max().unwrap_or_default()
}

fn summarise(report: &Report) {
    for leftover in &report.leftovers {
        say!("left over: {leftover}: delete it in the cloud");
    }
    let (failed, skipped) = (report.failed().count(), report.skipped().count());
    let seconds: Duration = report.results.iter().map(|result| result.duration).sum();
    say!(
        "{} passed, {failed} failed, {skipped} skipped in {:.1} s{}",
        report.results.len() - failed - skipped,
        seconds.as_secs_f64(),
        if report.stopped { "; stopped" } else { "" }
    );
}
