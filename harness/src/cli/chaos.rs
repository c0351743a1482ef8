//! `drydock chaos`: performs random plans of many seeds in parallel, for a number of seeds or a duration.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Clock;
use futures::StreamExt;
use judge::evaluate::{between, short};
use mcm_api::GoDuration;
use scenario::StageKind;
use scenario::job::Job;
use scenario::plan::Plan;
use scenario::result::RunResult;
use serde::Serialize;
use stage::run_folder::RunFolder;

use super::jobs::{self, at_once};
use super::output::{self, inform, say};
use super::progress::CampaignProgress;
use super::run::write_job_summary;
use super::{Ended, Interrupt, Interrupts, Outcome, Stop, block_on};
use crate::campaign::generate;
use crate::campaign::groups::{self, FailureGroup};
use crate::campaign::suite::{self, SUITES, Suite};
use crate::campaign::tally::{Line, Tally};
use crate::report::campaign::{self as report, EndedCampaign};
use crate::report::{files, junit};

/// Default number of seeds.
const SEEDS: u64 = 100;
/// Maximum number of failures that are compared with their undisturbed runs.
const MOST_COMPARED: usize = 100;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock chaos --seeds 1000\n  drydock chaos rollout preservation --for 8h --junit chaos.xml\n  drydock chaos machine --from 17 --plan         # what seed 17 does"
)]
pub(super) struct ChaosCommand {
    /// Suites by name; consecutive seeds alternate between them; none: all
    suites: Vec<String>,

    /// The stage; random plans are performed in virtual time only
    #[arg(long, default_value = "sim", value_enum)]
    stage: StageKind,

    /// Number of seeds; the default is 100
    #[arg(long, value_name = "N", conflicts_with = "for")]
    seeds: Option<u64>,

    /// Duration of the campaign by the wall clock
    #[arg(long, value_name = "DURATION")]
    r#for: Option<GoDuration>,

    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,

    /// Number of seeds that run in parallel; the default is the number of cores
    #[arg(long, value_name = "COUNT")]
    jobs: Option<usize>,

    /// A defect of mcm that is switched on (builds with mutants)
    #[arg(long, value_name = "NAME", hide = true)]
    mutant: Option<String>,

    /// Stops after this number of failures
    #[arg(long, value_name = "N")]
    failures: Option<usize>,

    /// Prints the plan of the first seed and performs nothing
    #[arg(long)]
    plan: bool,

    /// Folder for the report folders of failing seeds, with their plans
    #[arg(long, value_name = "FOLDER", default_value = ".drydock/chaos")]
    report: PathBuf,

    /// Writes JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Writes a JSON result
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The JSON result of a campaign.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    suites: Vec<&'a str>,
    seeds: usize,
    passed: usize,
    failed: usize,
    interrupted: bool,
    wall_seconds: f64,
    seeds_per_minute: f64,
    groups: &'a [FailureGroup],
    rare: &'a [Line],
    occurred: Vec<Line>,
    failures: Vec<&'a RunResult>,
}

/// The result of a campaign.
struct Campaign {
    /// The results in order of seeds.
    results: Vec<RunResult>,
    tally: Tally,
    groups: Vec<FailureGroup>,
    took: Duration,
    interrupt: Option<Interrupt>,
}

impl ChaosCommand {
    pub(super) fn execute(self) -> Ended {
        let suites = self.check()?;
        if self.plan {
            let plan = self.plan_of(&suites, self.from);
            let yaml = plan
                .to_yaml()
                .map_err(|error| Stop::Usage(format!("the plan has no YAML form: {error}")))?;
            output::print(&yaml)?;
            return Ok(Outcome::Passed);
        }
        let campaign = block_on(Box::pin(self.run(&suites)))??;
        let rare: Vec<Line> = suites.iter().flat_map(|suite| campaign.tally.rare(suite)).collect();
        print(&campaign, &rare);
        self.write(&suites, &campaign, &rare)?;
        self.write_page(&suites, &campaign)?;
        let passed = campaign.results.iter().all(RunResult::passed);
        let outcome = if passed && rare.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        Ok(outcome.or_interrupted(campaign.interrupt))
    }

    fn check(&self) -> Result<Vec<&'static Suite>, Stop> {
        if self.stage != StageKind::Sim {
            return Err(Stop::Usage(format!(
                "--stage {}: random plans run in virtual time only, with --stage sim",
                self.stage
            )));
        }
        if self.seeds == Some(0) || self.r#for.is_some_and(|time| time.0.is_zero()) {
            return Err(Stop::Usage(
                "no seeds: --seeds must be at least 1, and --for above zero".to_owned(),
            ));
        }
        at_once(self.jobs)?;
        let mut suites = Vec::new();
        for name in &self.suites {
            let known = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
            suites.push(
                suite::find(name)
                    .ok_or_else(|| Stop::Usage(format!("there is no suite {name:?}; there is {}", known())))?,
            );
        }
        if suites.is_empty() {
            suites.extend(&SUITES);
        }
        Ok(suites)
    }

    fn plan_of(&self, suites: &[&Suite], seed: u64) -> Plan {
        let turn = usize::try_from(seed % suites.len() as u64).unwrap_or_default();
        generate::plan(suites[turn], seed, self.mutant.as_deref())
    }

    fn job(&self, suites: &[&Suite], seed: u64) -> Job {
        Job {
            reports: self.report.clone(),
            ..Job::of(self.plan_of(suites, seed), StageKind::Sim)
        }
    }

    async fn run(&self, suites: &[&Suite]) -> Result<Campaign, Stop> {
        let count = match (self.seeds, self.r#for) {
            (Some(seeds), _) => Some(seeds),
            (None, None) => Some(SEEDS),
            (None, Some(_)) => None,
        };
        let last = count.map_or(u64::MAX, |count| self.from.saturating_add(count));
        let clock = Clock::wall();
        let started = clock.now();
        let names: Vec<&str> = suites.iter().map(|suite| suite.name).collect();
        inform!("campaign {} on stage {}", names.join(", "), StageKind::Sim);
        let progress = CampaignProgress::new(count, self.r#for.map(|time| time.0));
        let mut interrupts = Interrupts::new()?;
        let time_is_up = async {
            match self.r#for {
                Some(time) => clock.sleep(time.0).await,
                None => std::future::pending().await,
            }
        };
        let mut time_is_up = std::pin::pin!(time_is_up);
        let mut runs = futures::stream::iter(self.from..last)
            .map(|seed| {
                let job = self.job(suites, seed);
                async move { jobs::run_simulated(&job).await }
            })
            .buffer_unordered(at_once(self.jobs)?)
            .boxed();
        let mut campaign = Campaign {
            results: Vec::new(),
            tally: Tally::default(),
            groups: Vec::new(),
            took: Duration::ZERO,
            interrupt: None,
        };
        let mut failures = 0;
        loop {
            let result = tokio::select! {
                biased;
                interrupt = interrupts.next() => {
                    campaign.interrupt = Some(interrupt);
                    break;
                }
                () = &mut time_is_up => break,
                result = runs.next() => result,
            };
            let Some(mut result) = result else { break };
            campaign.tally.add(&result.occurred);
            failures += usize::from(!result.passed());
            progress.finished(&result, failures);
            discard_details(&mut result);
            campaign.results.push(result);
            if self.failures.is_some_and(|most| failures >= most) {
                break;
            }
        }
        drop(runs);
        campaign.took = between(started, clock.now());
        campaign.results.sort_by_key(|result| result.seed);
        if campaign.interrupt.is_none() {
            campaign.groups = self.group(suites, &campaign.results).await?;
        }
        Ok(campaign)
    }

    /// Compares failures with the undisturbed runs of their plans.
    async fn group(&self, suites: &[&Suite], results: &[RunResult]) -> Result<Vec<FailureGroup>, Stop> {
        let failed = results.iter().filter(|result| !result.passed()).take(MOST_COMPARED);
        let scratch =
            RunFolder::new().map_err(|error| Stop::Usage(format!("cannot create a temporary folder: {error}")))?;
        let compared: Vec<(RunResult, Vec<String>)> = futures::stream::iter(failed.cloned())
            .map(|result| {
                let undisturbed = Job {
                    narrate: true,
                    reports: scratch.path().to_owned(),
                    ..self.undisturbed(suites, result.seed)
                };
                async move { (result, jobs::run_simulated(&undisturbed).await.narrative) }
            })
            .buffered(at_once(self.jobs)?)
            .collect()
            .await;
        let mut groups = groups::group(&compared);
        for group in &mut groups {
            let Some(first) = group.seeds.first() else { continue };
            let recorded = Job {
                reports: scratch.path().to_owned(),
                record: Some(self.report.join("undisturbed")),
                ..self.undisturbed(suites, *first)
            };
            group.undisturbed = jobs::run_simulated(&recorded).await.record;
        }
        Ok(groups)
    }

    /// The run of a seed without its disturbances.
    fn undisturbed(&self, suites: &[&Suite], seed: u64) -> Job {
        let plan = Plan {
            disturbances: Vec::new(),
            ..self.plan_of(suites, seed)
        };
        Job::of(plan, StageKind::Sim)
    }

    /// Writes the record and the page of the campaign into the folder of its reports.
    fn write_page(&self, suites: &[&'static Suite], campaign: &Campaign) -> Result<(), Stop> {
        let by_cause;
        let groups = match campaign.interrupt {
            None => &campaign.groups,
            Some(_) => {
                by_cause = groups::group_by_cause(&campaign.results);
                &by_cause
            }
        };
        let ended = EndedCampaign {
            suites,
            results: &campaign.results,
            tally: &campaign.tally,
            groups,
            is_compared: campaign.interrupt.is_none(),
            wall_seconds: campaign.took.as_secs_f64(),
        };
        let page = report::write(&self.report, &ended).map_err(|error| {
            Stop::Usage(format!(
                "cannot write the page of the campaign into {}: {error}",
                self.report.display()
            ))
        })?;
        inform!("the campaign as a page: {}", page.display());
        Ok(())
    }

    fn write(&self, suites: &[&Suite], campaign: &Campaign, rare: &[Line]) -> Result<(), Stop> {
        write_job_summary("drydock chaos", &campaign.results);
        let cannot = |path: &PathBuf, error| Stop::Usage(format!("cannot write {}: {error}", path.display()));
        if let Some(path) = &self.junit {
            junit::write(path, &campaign.results).map_err(|error| cannot(path, error))?;
        }
        if let Some(path) = &self.json {
            let failures: Vec<_> = campaign.results.iter().filter(|result| !result.passed()).collect();
            let document = Document {
                suites: suites.iter().map(|suite| suite.name).collect(),
                seeds: campaign.results.len(),
                passed: campaign.results.len() - failures.len(),
                failed: failures.len(),
                interrupted: campaign.interrupt.is_some(),
                wall_seconds: campaign.took.as_secs_f64(),
                seeds_per_minute: campaign.seeds_per_minute(),
                groups: &campaign.groups,
                rare,
                occurred: campaign.tally.lines(),
                failures,
            };
            let text = serde_json::to_vec_pretty(&document)
                .map_err(|error| Stop::Usage(format!("the result has no JSON form: {error}")))?;
            files::write_file(path, &text).map_err(|error| cannot(path, error))?;
        }
        Ok(())
    }
}

impl Campaign {
    fn seeds_per_minute(&self) -> f64 {
        60.0 * self.results.len() as f64 / self.took.as_secs_f64().max(0.001)
    }
}

/// Discards the details of a result that the summary does not need, because the results of a long campaign would use
/// too much memory.
fn discard_details(result: &mut RunResult) {
    result.effects.clear();
    result.requests.clear();
    result.end.clear();
    if result.passed() {
        result.narrative.clear();
        result.occurred = Default::default();
    }
}

fn print(campaign: &Campaign, rare: &[Line]) {
    let seeds = campaign.results.len();
    let failed = campaign.results.iter().filter(|result| !result.passed()).count();
    inform!("what occurred, in how many of {seeds} seeds, and how often:");
    let lines = campaign.tally.lines();
    let width = lines.iter().map(|line| line.name.len()).max().unwrap_or_default();
    for Line { group, name, count } in &lines {
        inform!("  {group:12}  {name:width$}  {:>6}  {:>7}", count.seeds, count.times);
    }
    for group in &campaign.groups {
        say!(
            "{} of the failures: {}, after {:?}",
            group.seeds.len(),
            group.key.broken,
            group.key.first_difference
        );
        say!("     first: {}", group.reason);
        say!("     replay: {}", group.replay);
        if let (Some(one), Some(other)) = (&group.undisturbed, &group.report) {
            say!("     compare: drydock diff {} {}", one.display(), other.display());
        }
        let shown: Vec<String> = group.seeds.iter().take(10).map(u64::to_string).collect();
        let more = if group.seeds.len() > shown.len() {
            " and more"
        } else {
            ""
        };
        say!("     seeds: {}{more}", shown.join(", "));
    }
    let grouped: usize = campaign.groups.iter().map(|group| group.seeds.len()).sum();
    if campaign.interrupt.is_none() && grouped < failed {
        say!(
            "{} of the failures: not compared, because only the first {MOST_COMPARED} are",
            failed - grouped
        );
    }
    for line in rare {
        say!(
            "RARE: {} {:?} occurred in {} of {seeds} seeds; its suite declares that it occurs in one of a hundred",
            line.group,
            line.name,
            line.count.seeds
        );
    }
    let without_hits: BTreeSet<&str> = campaign
        .results
        .iter()
        .flat_map(|result| &result.disturbances)
        .filter(|disturbance| disturbance.hits == 0)
        .map(|disturbance| disturbance.kind.as_str())
        .collect();
    if !without_hits.is_empty() {
        let all = campaign.results.iter().flat_map(|result| &result.disturbances);
        let (with_hits, all): (usize, usize) = all.fold((0, 0), |(with_hits, all), disturbance| {
            (with_hits + usize::from(disturbance.hits > 0), all + 1)
        });
        inform!("{with_hits} of {all} disturbances have hits");
    }
    let early = campaign.interrupt.map_or("", |_| "interrupted: ");
    say!(
        "{early}{} passed, {failed} failed in {} groups; {} for {seeds} seeds: {:.0} a minute",
        seeds - failed,
        campaign.groups.len(),
        short(campaign.took),
        campaign.seeds_per_minute()
    );
}
