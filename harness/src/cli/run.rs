//! `drydock run`: creates jobs from scenarios, seeds and a stage, and runs them.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::ArgPredicate;
use clock::Clock;
use scenario::job::Job;
use scenario::plan::{Disturbance, Plan};
use scenario::result::RunResult;
use scenario::step::{Crash, Moment, Process};
use scenario::{Scenario, StageKind};

use super::files::{read_plan, read_scenario};
use super::output::say;
use super::stage::StageArguments;
use super::{Ended, Outcome, Stop, jobs, named};
use crate::report::{ctrf, github, json, junit};

/// The default folder for the records of runs that pass.
pub(super) const RECORDS: &str = ".drydock/records";

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock run                                    # every scenario that stage embedded can run\n  drydock run lifecycle drain --stage envtest\n  drydock run --stage sim --seeds 20\n  drydock run lifecycle --stage sim --record      # with a report that opens in a browser\n  drydock run --file my.yaml --controller ./my-controller"
)]
pub(super) struct Run {
    /// Scenarios and suites by name; none: all that the stage can run
    names: Vec<String>,

    /// A scenario in a YAML file; may be given several times
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A plan in a YAML or JSON file, with scenario, seed and disturbances; may be given several times. The default
    /// stage is sim
    #[arg(long = "plan", value_name = "FILE", conflicts_with_all = ["names", "files", "seed", "seeds", "crash", "mutant"])]
    plans: Vec<PathBuf>,

    /// The stage of the scenarios
    #[arg(
        long,
        default_value = "embedded",
        default_value_if("plans", ArgPredicate::IsPresent, "sim"),
        value_enum
    )]
    stage: StageKind,

    /// The stage of a separate target cluster, which the nodes join
    #[arg(long, value_name = "STAGE", value_enum)]
    target_stage: Option<StageKind>,

    /// The seed of all randomness
    #[arg(long, default_value_t = 1, conflicts_with = "seeds")]
    seed: u64,

    /// Several seeds: a number (20: seeds 1 to 20) or a range (5..8: 5, 6 and 7)
    #[arg(long, value_name = "N|A..B", value_parser = parse_seeds)]
    seeds: Option<Seeds>,

    /// Number of parallel runs. The default is one for each core in virtual time, and several for each core where
    /// scenarios mostly wait
    #[arg(long, value_name = "COUNT")]
    jobs: Option<usize>,

    /// A command that replaces mcm; its environment has KUBECONFIG, FAKECLOUD_ADDRESS, DRYDOCK_NAMESPACE, and the stage's
    /// timeouts, such as DRYDOCK_HEALTH_TIMEOUT (stages embedded, envtest and kubeconfig)
    #[arg(long, value_name = "COMMAND")]
    controller: Option<String>,

    /// Crashes mcm at one of its effects (before:N or after:N) and starts it again (all stages except kind)
    #[arg(long, value_name = "SIDE:N", value_parser = parse_crash)]
    crash: Option<Crash>,

    /// A defect of mcm that is switched on (stage sim, builds with mutants)
    #[arg(long, value_name = "NAME", hide = true)]
    mutant: Option<String>,

    /// Folder for the report folders of failed runs
    #[arg(
        long,
        value_name = "FOLDER",
        help_heading = "Results",
        default_value = ".drydock/reports"
    )]
    report: PathBuf,

    /// Writes the record and the HTML report also of runs that pass, below this folder; the default is .drydock/records
    #[arg(
        long,
        value_name = "FOLDER",
        help_heading = "Results",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = RECORDS
    )]
    record: Option<PathBuf>,

    /// Writes JUnit XML
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    junit: Option<PathBuf>,

    /// Writes a JSON result
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,

    /// Writes the results in the Common Test Report Format (CTRF)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    ctrf: Option<PathBuf>,

    #[command(flatten)]
    on: StageArguments,
}

impl Run {
    /// Whether the command line contains scenario names.
    pub(super) fn names_scenarios(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether it may create a kind cluster.
    pub(super) fn is_on_kind(&self) -> bool {
        self.stage == StageKind::Kind || self.target_stage == Some(StageKind::Kind)
    }

    pub(super) fn execute(self, scenarios: Vec<Scenario>) -> Ended {
        self.check()?;
        if !self.plans.is_empty() {
            return self.run_plans(&scenarios);
        }
        let chosen = self.choose(&scenarios)?;
        let seeds = self.seeds.as_ref().map_or(vec![self.seed], |seeds| seeds.0.clone());
        let mut jobs = Vec::new();
        for (scenario, file) in chosen {
            for seed in &seeds {
                let plan = Plan {
                    disturbances: self.crash.map(Disturbance::Crash).into_iter().collect(),
                    mutant: self.mutant.clone(),
                    ..Plan::new(scenario.clone(), *seed)
                };
                jobs.push(Job {
                    file: file.clone(),
                    from_plan: false,
                    controller: self.controller.clone(),
                    reports: self.report.clone(),
                    record: self.record.clone(),
                    on: self.on.replay(),
                    target: self.target_stage,
                    ..Job::of(plan, self.stage)
                });
            }
        }
        self.perform(jobs)
    }

    /// Runs the jobs, and reports their results, also after an interrupt.
    fn perform(&self, jobs: Vec<Job>) -> Ended {
        let clock = Clock::wall();
        let started = clock.now();
        let finished = jobs::run(jobs, self.jobs, &self.on)?;
        let (interrupt, left) = (finished.interrupt, finished.left());
        let results = finished.performed();
        self.write(&results, interrupt.is_some())?;
        if let Some(path) = &self.ctrf {
            ctrf::write(path, &results, started, clock.now()).map_err(|error| cannot_write(path, &error))?;
        }
        write_job_summary("drydock run", &results);
        Ok(summarise(&results, left).or_interrupted(interrupt))
    }

    fn run_plans(&self, scenarios: &[Scenario]) -> Ended {
        let mut jobs = Vec::new();
        for file in &self.plans {
            let plan = read_plan(file, scenarios)?;
            if let Some(reason) = self.why_not(&plan.scenario) {
                return Err(Stop::Usage(format!("{}: {reason}", file.display())));
            }
            if let Some((number, reason)) = plan.why_not_on(self.stage) {
                return Err(Stop::Usage(format!(
                    "{}: disturbances[{number}]: {reason}",
                    file.display()
                )));
            }
            jobs.push(Job {
                controller: self.controller.clone(),
                reports: self.report.clone(),
                record: self.record.clone(),
                on: self.on.replay(),
                target: self.target_stage,
                ..Job::of(plan, self.stage)
            });
        }
        self.perform(jobs)
    }

    fn check(&self) -> Result<(), Stop> {
        self.on.check(self.stage, self.target_stage)?;
        if let Some(reason) = self.target_stage.and_then(|target| self.stage.why_no_target(target)) {
            return Err(Stop::Usage(format!("--target-stage: {reason}")));
        }
        let sim = self.stage == StageKind::Sim;
        let shared = self.stage.shared_of(self.target_stage);
        if let Some(stage) = shared.filter(|_| !self.on.may_have_several(self.stage, self.target_stage))
            && self.jobs.is_some_and(|jobs| jobs > 1)
        {
            return Err(Stop::Usage(format!(
                "--jobs {}: scenarios run one after another in one cluster, because nodes have no namespace; on stage \
                 kind, without --cluster and --keep, each job has its own cluster (the stage is {stage})",
                self.jobs.unwrap_or_default(),
            )));
        }
        if self.controller.is_some() && self.stage == StageKind::Kind && self.target_stage.is_none() {
            return Err(Stop::Usage(
                "--controller replaces a process, and on stage kind mcm is a Deployment; use --stage embedded, \
                 envtest or kubeconfig"
                    .into(),
            ));
        }
        if self.controller.is_some() && sim {
            return Err(Stop::Usage(
                "--controller needs a wall clock: virtual time is exact only inside this process; use --stage embedded"
                    .into(),
            ));
        }
        if let Some(reason) = self.crash.and_then(|crash| self.stage.why_no_gate(crash.process)) {
            return Err(Stop::Usage(format!("--crash: {reason}")));
        }
        if self.mutant.is_some() && !sim {
            return Err(Stop::Usage("--mutant needs --stage sim".into()));
        }
        Ok(())
    }

    /// Why a scenario does not run on the selected stages; `None`: it runs.
    fn why_not(&self, scenario: &Scenario) -> Option<String> {
        let on_target = |target| scenario.why_not_with_target(self.stage, target);
        let reason = scenario.why_not_on(self.stage);
        reason.or_else(|| self.target_stage.and_then(on_target))
    }

    fn choose(&self, scenarios: &[Scenario]) -> Result<Vec<(Scenario, Option<PathBuf>)>, Stop> {
        let by_name = named(scenarios, &self.names, |scenario| self.why_not(scenario).is_none())?;
        let mut chosen: Vec<_> = by_name.into_iter().map(|scenario| (scenario, None)).collect();
        for file in &self.files {
            let scenario = read_scenario(file)?;
            chosen.push((scenario, Some(file.clone())));
        }
        for (scenario, _) in &chosen {
            if let Some(reason) = self.why_not(scenario) {
                return Err(Stop::Usage(format!(
                    "scenario {} does not run on stage {}: {reason}",
                    scenario.name, self.stage
                )));
            }
        }
        if chosen.is_empty() {
            let all = scenarios.iter().filter(|scenario| self.why_not(scenario).is_none());
            chosen.extend(all.map(|scenario| (scenario.clone(), None)));
        }
        Ok(chosen)
    }

    fn write(&self, results: &[RunResult], interrupted: bool) -> Result<(), Stop> {
        if let Some(path) = &self.junit {
            junit::write(path, results).map_err(|error| cannot_write(path, &error))?;
        }
        if let Some(path) = &self.json {
            json::write(path, results, interrupted).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(())
    }
}

/// The results are known, so a summary that cannot be written does not fail the command.
pub(super) fn write_job_summary(title: &str, results: &[RunResult]) {
    if let Err((path, error)) = github::append(title, results) {
        crate::cli::output::complain!(
            "drydock: warning: cannot write the job summary {}: {error}",
            path.display()
        );
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Usage(format!("cannot write {}: {error}", path.display()))
}

/// With up to this number of runs, failures are not listed again, because they are still on the screen.
const FEWEST_LISTED: usize = 10;

/// Prints the failed runs with their reasons, in the order of the command line, and the totals in a form that test
/// runners parse. `left` is the number of runs that were not performed, because of an interrupt.
pub(super) fn summarise(results: &[RunResult], left: usize) -> Outcome {
    let passed = results.iter().filter(|result| result.passed()).count();
    let disturbances = results.iter().flat_map(|result| &result.disturbances);
    let without_hits = disturbances.filter(|disturbance| disturbance.hits == 0).count();
    let warning = match without_hits {
        0 => String::new(),
        1 => "; warning: 1 disturbance never hit".to_owned(),
        many => format!("; warning: {many} disturbances never hit"),
    };
    if results.len() > FEWEST_LISTED {
        for result in results.iter().filter(|result| !result.passed()) {
            say!("failed: {}", result.replay);
            if let Some(failure) = &result.failure {
                let place = match failure.step {
                    0 => String::new(),
                    step => format!("step {step}: "),
                };
                say!("        {place}{}", failure.reason);
            }
        }
    }
    let (early, left) = match left {
        0 => ("", String::new()),
        left => ("interrupted: ", format!(", {left} not run")),
    };
    say!(
        "{early}{passed} passed, {} failed{left}{warning}",
        results.len() - passed
    );
    if passed == results.len() {
        Outcome::Passed
    } else {
        Outcome::Failed
    }
}

#[derive(Clone, Debug)]
struct Seeds(Vec<u64>);

/// Maximum number of seeds in one run.
const MOST_SEEDS: u64 = 1_000_000;

fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let wrong = || format!("{text:?} is neither a number of seeds such as 20 nor a range such as 5..8");
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?),
        None => (1, text.parse::<u64>().map_err(|_| wrong())?.saturating_add(1)),
    };
    if from >= to {
        return Err(format!("{text:?} contains no seed"));
    }
    if to - from > MOST_SEEDS {
        return Err(format!("{text:?} contains more than {MOST_SEEDS} seeds"));
    }
    Ok(Seeds((from..to).collect()))
}

fn parse_crash(text: &str) -> Result<Crash, String> {
    let wrong = || format!("{text:?} is not a crash point: write before:N or after:N with N from 1");
    let (side, effect) = text.split_once(':').ok_or_else(wrong)?;
    let at = match side {
        "before" => Moment::Before,
        "after" => Moment::After,
        _ => return Err(wrong()),
    };
    match effect.parse() {
        Ok(effect) if effect > 0 => Ok(Crash {
            process: Process::Mcm,
            at,
            effect,
            may_miss: false,
        }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_number("3", &[1, 2, 3])]
    #[case::a_range("5..8", &[5, 6, 7])]
    fn seeds_are_a_number_or_a_range(#[case] text: &str, #[case] expected: &[u64]) {
        assert_eq!(parse_seeds(text).unwrap().0, expected);
    }

    #[rstest]
    #[case::words("many")]
    #[case::an_empty_range("8..8")]
    #[case::none("0")]
    #[case::too_many("0..18446744073709551615")]
    fn invalid_seeds_are_refused(#[case] text: &str) {
        assert!(parse_seeds(text).unwrap_err().contains(text));
    }
}
