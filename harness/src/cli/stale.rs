//! `drydock stale`: runs a controller while what it sees is old.

use std::path::PathBuf;
use std::time::Duration;

use apiserver::faults::Pattern;
use clap::Args;
use futures::{StreamExt as _, stream};
use scenario::check_resource;
use scenario::stale::{LagList, StaleScenario};
use serde::Serialize;
use terminal::{Format, OutputFormat, is_quiet, is_verbose, render, structured};

use super::output::{inform, print, say};
use super::{Ended, Outcome, Stop, block_on, interrupted};
use crate::stale::{self, RunReport, Settings, StaleError, narrative};

const EXAMPLES: &str = "Examples:
  drydock stale --controller target/debug/widget-controller --lag 2s examples/widgets/stale.yaml
  drydock stale --controller 'my-controller --kubeconfig={kubeconfig}' --lag 1s..5m --fail-on-contradiction story.yaml
  drydock stale --controller ./my-controller --lag 0s,30s --kind pods -o json story.yaml > report.json";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct StaleCommand {
    /// The scenario: objects, steps, and how many objects there may be
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,

    /// The shell command of the controller. `{kubeconfig}` in it becomes the path of its kubeconfig, which is also the value
    /// of KUBECONFIG
    #[arg(long, value_name = "COMMAND")]
    controller: String,

    /// How late the controller sees changes, with one run for each: 30s, a list (0s,30s) or a range (1s..5m)
    #[arg(long, value_name = "LAGS", default_value = "30s")]
    lag: LagList,

    /// The resource whose watches and lists are late (pods, widgets.example.com), in place of those of the scenario
    #[arg(long, value_name = "RESOURCE")]
    kind: Option<String>,

    /// Fails also if a change contradicts a write
    #[arg(long)]
    fail_on_contradiction: bool,

    /// How many runs are performed at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,

    /// Keeps the logs of the controller in this folder
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,

    /// The seed of uids and of the draws of fault rules
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    output: OutputFormat,
}

/// The report of all runs, as JSON or YAML.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    scenario: &'a str,
    controller: &'a str,
    passed: bool,
    runs: &'a [RunReport],
}

impl StaleCommand {
    pub(super) fn execute(self) -> Ended {
        let scenario = StaleScenario::read(&self.scenario)?;
        let watches = self.watches(&scenario)?;
        block_on(async {
            tokio::select! {
                biased;
                interrupt = interrupted() => Err(Stop::Interrupted(interrupt)),
                ended = self.runs(&scenario, &watches) => ended,
            }
        })?
    }

    /// The resources whose watches lag.
    fn watches(&self, scenario: &StaleScenario) -> Result<Vec<Pattern>, Stop> {
        let Some(resource) = &self.kind else {
            return Ok(scenario.lag.watches.clone());
        };
        match check_resource(&scenario.kinds(), resource) {
            Ok(()) => Ok(vec![Pattern::new(resource)]),
            Err(error) => Err(Stop::Usage(format!("--kind: {error}"))),
        }
    }

    /// One run for each lag, and their reports.
    async fn runs(&self, scenario: &StaleScenario, watches: &[Pattern]) -> Ended {
        let runs = self.lag.0.iter().map(|lag| self.run(scenario, watches, *lag));
        let mut runs = stream::iter(runs).buffered(usize::from(self.jobs));
        let mut reports = Vec::new();
        let mut failure = None;
        while let Some(ended) = runs.next().await {
            match ended {
                Ok(report) => {
                    if matches!(self.output.format, Format::Table | Format::Wide) {
                        inform!("{}", narrative(&report, is_verbose()).trim_end());
                    }
                    reports.push(report);
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let passed = failure.is_none() && reports.iter().all(|report| self.is_passed(report));
        // A run that could not be performed does not take the reports of the others with it.
        if failure.is_none() || !reports.is_empty() {
            self.print(scenario, &reports, passed)?;
        }
        match failure {
            Some(error) => Err(error.into()),
            None if passed => Ok(Outcome::Passed),
            None => Ok(Outcome::Failed),
        }
    }

    async fn run(&self, scenario: &StaleScenario, watches: &[Pattern], lag: Duration) -> Result<RunReport, StaleError> {
        let settings = Settings {
            scenario,
            controller: &self.controller,
            watches,
            lag,
            seed: self.seed,
            logs: self.logs.as_deref(),
        };
        stale::run(&settings).await
    }

    fn is_passed(&self, report: &RunReport) -> bool {
        report.is_as_expected() && !(self.fail_on_contradiction && report.contradicted > 0)
    }

    fn print(&self, scenario: &StaleScenario, runs: &[RunReport], passed: bool) -> Result<(), Stop> {
        let report = Report {
            scenario: &scenario.name,
            controller: &self.controller,
            passed,
            runs,
        };
        match structured(self.output.format, &report)? {
            Some(text) => print(&text).map(drop),
            None => {
                if !is_quiet() {
                    say!();
                }
                print(&render(self.output.format, runs)?).map(drop)
            }
        }
    }
}
