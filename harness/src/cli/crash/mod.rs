//! `drydock crash`: crashes a controller before and after every effect of a scenario and starts it again, or lets its
//! watches lag from an effect on. Every run must pass and have the same final state as the undisturbed run.

mod compare;
mod points;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clock::Clock;
use judge::evaluate::{between, short};
use scenario::builder::{seconds, slack, wait};
use scenario::job::Job;
use scenario::plan::Disturbance;
use scenario::result::Effect;
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use scenario::step::{CloudCall, Crash, Fault, Process, Step};
use scenario::{DurationExpression, ObjectReference, Scenario, StageKind};
use terminal::failure;

use self::points::{Only, changed_path, crash_points, lags, selects};
use super::files::read_scenario;
use super::output::{inform, say};
use super::run::{summarise, write_job_summary};
use super::stage::StageArguments;
use super::{Ended, Stop, jobs, named};
use crate::campaign::mask::Mask;
use crate::engine::watched_kinds::WatchedKinds;
use crate::report::{json, junit};

/// The boot delay of the second undisturbed run. Boots take from three quarters to all of the delay: the delay is so
/// much longer that no two boots of the runs take the same time, and short enough for the expectations of the scenario.
fn slower(boot_delay: &DurationExpression) -> DurationExpression {
    boot_delay.clone() + 3 * boot_delay.clone() / 8 + seconds(2)
}

/// A fault that makes creations a second slower. `None`: the scenario has faults of creations, and only one of two
/// matching rules applies to a call.
fn slower_creations(scenario: &Scenario) -> Option<Disturbance> {
    let call = CloudCall::CreateMachine;
    let affects_creations = |step: &Step| match step {
        Step::Inject(fault) => fault.rule.matches.call.is_none_or(|affected| affected == call),
        Step::SlowCreation(_) => true,
        _ => false,
    };
    let fault = Fault::of("slower", call).latency(seconds(1));
    (!scenario.steps.iter().any(affects_creations)).then(|| Disturbance::Cloud(Box::new(fault)))
}

/// Maximum number of crash points of a scenario for which pairs are tried: the number of pairs is half the square.
const MOST_POINTS_FOR_PAIRS: usize = 80;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock crash lifecycle\n  drydock crash health-check --process remediation\n  drydock crash --file my.yaml --controller ./my-controller --lag 2s"
)]
pub(super) struct CrashCommand {
    /// Scenarios and suites by name
    #[arg(required_unless_present = "files")]
    names: Vec<String>,

    /// A scenario in a YAML file; may be given several times
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A command that replaces mcm, as for `drydock run`. The scenarios then run on stage embedded, on the wall clock
    #[arg(long, value_name = "COMMAND", conflicts_with = "mutant")]
    controller: Option<String>,

    /// The process to crash; health-checks and remediation exist only in some worlds
    #[arg(long, value_name = "NAME", default_value = "mcm", conflicts_with = "controller")]
    process: CrashTarget,

    /// Instead of a crash: from each effect on, for twice this time, the controller sees all changes this much later
    #[arg(long, value_name = "TIME", conflicts_with = "pairs")]
    lag: Option<DurationExpression>,

    /// How long the controller may work after the last expectation, before the final states are compared. The default is
    /// 10s with --controller, else slack; a controller that waits for its old Lease needs longer
    #[arg(long, value_name = "TIME")]
    settle: Option<DurationExpression>,

    /// Only these effects: before:N, after:N, or N for both sides and for --lag; may be given several times
    #[arg(long, value_name = "EFFECT")]
    only: Vec<Only>,

    /// Also crashes twice, at each pair of crash points, in scenarios that are short enough
    #[arg(long)]
    pairs: bool,

    /// The seed of all randomness; expected differences between runs are learned from a run with this seed and one with
    /// the next seed that starts a minute later
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of parallel runs; the default is the number of cores
    #[arg(long, value_name = "COUNT")]
    jobs: Option<usize>,

    /// A defect of mcm that is switched on (builds with mutants)
    #[arg(long, value_name = "NAME", hide = true)]
    mutant: Option<String>,

    /// Folder for the report folders of failed runs
    #[arg(long, value_name = "FOLDER", default_value = ".drydock/reports")]
    report: PathBuf,

    /// Writes JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Writes a JSON result
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A process whose effects are crash points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CrashTarget {
    /// The machine controller manager
    Mcm,
    /// The process that only checks the health of machines
    HealthChecks,
    /// The example remediation controller
    Remediation,
}

impl From<CrashTarget> for Process {
    fn from(crashing: CrashTarget) -> Self {
        match crashing {
            CrashTarget::Mcm => Self::Mcm,
            CrashTarget::HealthChecks => Self::HealthChecks,
            CrashTarget::Remediation => Self::Remediation,
        }
    }
}

impl CrashCommand {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        let mut results = Vec::new();
        let mut interrupt = None;
        for (scenario, file) in self.choose(scenarios)? {
            match self.crash_everywhere(scenario, file, &mut results) {
                Ok(()) => {}
                Err(Stop::Interrupted(by)) => {
                    interrupt = Some(by);
                    break;
                }
                Err(stop) => return Err(stop),
            }
        }
        let cannot = |path: &PathBuf, error| Stop::Usage(format!("cannot write {}: {error}", path.display()));
        if let Some(path) = &self.junit {
            junit::write(path, &results).map_err(|error| cannot(path, error))?;
        }
        if let Some(path) = &self.json {
            json::write(path, &results, interrupt.is_some()).map_err(|error| cannot(path, error))?;
        }
        write_job_summary("drydock crash", &results);
        Ok(summarise(&results, 0).or_interrupted(interrupt))
    }

    /// The stage: virtual time, where the controller can run in it.
    fn stage(&self) -> StageKind {
        match self.controller {
            None => StageKind::Sim,
            Some(_) => StageKind::Embedded,
        }
    }

    /// How long work in progress at the last expectation may take. On the wall clock `slack` includes the time for which
    /// a new mcm waits for the Lease of the old one.
    fn settle(&self) -> DurationExpression {
        let default = || match self.controller {
            None => slack(),
            Some(_) => seconds(10),
        };
        self.settle.clone().unwrap_or_else(default)
    }

    /// The scenarios of those names, and those of suites that can run on the stage and have the process.
    fn choose(&self, scenarios: &[Scenario]) -> Result<Vec<(Scenario, Option<PathBuf>)>, Stop> {
        let stage = self.stage();
        let process = self.process.into();
        if self.lag.is_some() && process == Process::Remediation {
            let message = "--lag delays watches, and the remediation controller has none: it lists its requests";
            return Err(Stop::Usage(message.to_owned()));
        }
        let can_crash = |scenario: &Scenario| scenario.runs_on(stage) && scenario.has_process(process);
        let by_name = named(scenarios, &self.names, can_crash)?;
        let mut chosen: Vec<_> = by_name.into_iter().map(|scenario| (scenario, None)).collect();
        for file in &self.files {
            let scenario = read_scenario(file)?;
            chosen.push((scenario, Some(file.clone())));
        }
        for (scenario, _) in &chosen {
            if let Some(reason) = scenario.why_not_on(stage) {
                return Err(Stop::Usage(format!(
                    "scenario {} does not run on stage {stage}: {reason}",
                    scenario.name
                )));
            }
            if !scenario.has_process(process) {
                let name = &scenario.name;
                return Err(Stop::Usage(format!(
                    "the world of scenario {name} has no process {process}"
                )));
            }
        }
        Ok(chosen)
    }

    /// Runs the jobs. After an interrupt, the results are added to `results`, which are reported.
    fn run(&self, plans: Vec<Job>, results: &mut Vec<RunResult>) -> Result<Vec<RunResult>, Stop> {
        let finished = jobs::run(plans, self.jobs, &StageArguments::default())?;
        let interrupt = finished.interrupt;
        let performed = finished.performed();
        match interrupt {
            None => Ok(performed),
            Some(interrupt) => {
                results.extend(performed);
                Err(Stop::Interrupted(interrupt))
            }
        }
    }

    fn crash_everywhere(
        &self,
        scenario: Scenario,
        file: Option<PathBuf>,
        results: &mut Vec<RunResult>,
    ) -> Result<(), Stop> {
        let clock = Clock::wall();
        let started = clock.now();
        let name = scenario.name.clone();
        let mut clean = self.clean_job(scenario, file);
        let pair = self.undisturbed_pair(&mut clean, results)?;
        let [undisturbed, other] = pair.as_slice() else {
            return Ok(());
        };
        if !pair.iter().all(RunResult::passed) {
            results.extend(pair);
            return Ok(());
        }
        let mask = match Mask::learn(&undisturbed.end, &other.end) {
            Ok(mask) => mask,
            Err(difference) => {
                say!("{} {name}: {difference}", failure("FAIL"));
                results.push(failed(undisturbed.clone(), difference.to_string()));
                return Ok(());
            }
        };
        print_mask(&mask, self.seed);
        let points = self.selected_points(&name, &undisturbed.effects)?;
        let disturbed = self.disturb(&clean, &points, (&mask, undisturbed), results)?;
        let changed = disturbed.iter().filter(|result| changed_path(undisturbed, result));
        say!(
            "{name}: {} plans, {} changed the path, {} failed, {}",
            disturbed.len(),
            changed.count(),
            disturbed.iter().filter(|result| !result.passed()).count(),
            short(between(started, clock.now()))
        );
        results.extend(pair);
        results.extend(disturbed);
        Ok(())
    }

    /// The job of the scenario without disturbances.
    fn clean_job(&self, scenario: Scenario, file: Option<PathBuf>) -> Job {
        let settle = self.settle();
        let mut clean = Job {
            file,
            controller: self.controller.clone(),
            effects: Some(self.process.into()),
            reports: self.report.clone(),
            ..Job::new(scenario.step(wait(settle)), self.stage(), self.seed)
        };
        clean.plan.mutant.clone_from(&self.mutant);
        clean
    }

    /// Two undisturbed runs. If a controller writes objects of further kinds, these become part of the job, and the
    /// runs are repeated.
    fn undisturbed_pair(&self, clean: &mut Job, results: &mut Vec<RunResult>) -> Result<Vec<RunResult>, Stop> {
        let pair = self.run_undisturbed(clean, results)?;
        let [first, ..] = pair.as_slice() else {
            return Ok(pair);
        };
        if !first.passed() || self.controller.is_none() {
            return Ok(pair);
        }
        let kinds = written_kinds(&clean.plan.scenario, &first.effects);
        if kinds.is_empty() {
            return Ok(pair);
        }
        let names: Vec<&str> = kinds.iter().map(|created| created.kind.as_str()).collect();
        say!(
            "the controller also writes objects of kind {}, which are compared, too",
            names.join(", ")
        );
        clean.plan.scenario.world.creates.extend(kinds);
        self.run_undisturbed(clean, results)
    }

    /// The crash points that `--only` selects.
    fn selected_points(&self, name: &str, effects: &[Effect]) -> Result<Vec<Crash>, Stop> {
        let process = self.process.into();
        let points = crash_points(process, effects, 0);
        if points.is_empty() {
            return Err(Stop::Usage(format!(
                "process {process} has no effects in scenario {name}: it writes nothing to the API server and calls no cloud"
            )));
        }
        let selected = points.into_iter().filter(|point| match self.lag {
            Some(_) => selects(&self.only, None, point.effect),
            None => selects(&self.only, Some(point.at), point.effect),
        });
        let points: Vec<Crash> = selected.collect();
        if points.is_empty() {
            return Err(Stop::Usage(format!(
                "--only selects no effect of scenario {name}, which has {}",
                effects.len()
            )));
        }
        Ok(points)
    }

    /// Runs the job with a disturbance at each of the points and, with `--pairs`, with two crashes.
    fn disturb(
        &self,
        clean: &Job,
        points: &[Crash],
        (mask, undisturbed): (&Mask, &RunResult),
        results: &mut Vec<RunResult>,
    ) -> Result<Vec<RunResult>, Stop> {
        let plan = |disturbances: Vec<Disturbance>| {
            let mut job = clean.clone();
            job.plan.disturbances = disturbances;
            // On a wall clock a controller may have fewer effects than in the undisturbed run.
            job.plan.may_miss = self.controller.is_some();
            job
        };
        let crashes = |crashes: &[Crash]| plan(crashes.iter().copied().map(Disturbance::Crash).collect());
        let jobs: Vec<Job> = match &self.lag {
            Some(by) => lags(points, by).into_iter().map(|lag| plan(vec![lag])).collect(),
            None => points.iter().map(|point| crashes(&[*point])).collect(),
        };
        let what = if self.lag.is_some() { "lags" } else { "crash points" };
        inform!("{} effects, {} {what}", undisturbed.effects.len(), jobs.len());
        let once = self.run(jobs.clone(), results)?;
        let mut disturbed = self.judge(mask, undisturbed, &jobs, once.clone());
        if self.pairs && points.len() <= MOST_POINTS_FOR_PAIRS {
            let pairs = points.iter().zip(&once).flat_map(|(first, result)| {
                let second = crash_points(first.process, &result.effects, first.effect);
                let selected = second
                    .into_iter()
                    .filter(|second| selects(&self.only, Some(second.at), second.effect));
                selected.map(move |second| [*first, second])
            });
            let jobs: Vec<Job> = pairs.map(|pair| crashes(&pair)).collect();
            let twice = self.run(jobs.clone(), results)?;
            disturbed.extend(self.judge(mask, undisturbed, &jobs, twice));
        } else if self.pairs {
            let name = &clean.plan.scenario.name;
            inform!("{name} has too many crash points for pairs: the maximum is {MOST_POINTS_FOR_PAIRS}");
        }
        Ok(disturbed)
    }

    /// Runs the scenario twice, with two seeds. Two runs with the same timing may have equal revisions and durations by
    /// chance; therefore the other run starts later, in a slower cloud.
    fn run_undisturbed(&self, clean: &Job, results: &mut Vec<RunResult>) -> Result<Vec<RunResult>, Stop> {
        let mut other = clean.clone();
        other.plan.seed = self.seed.wrapping_add(1);
        other.plan.scenario.steps.insert(0, wait(slack()));
        if self.controller.is_none() {
            other.plan.disturbances.extend(slower_creations(&other.plan.scenario));
        }
        // The scenario may create no VM.
        other.plan.may_miss = true;
        let cloud = &mut other.plan.scenario.world.cloud;
        cloud.boot_delay = slower(&cloud.boot_delay);
        self.run(vec![clean.clone(), other], results)
    }
}

/// The kinds that the controller writes and that no run of the scenario observes. Events repeat what happens elsewhere, and
/// Leases say who leads.
fn written_kinds(scenario: &Scenario, effects: &[Effect]) -> BTreeSet<ObjectReference> {
    let kinds = scenario.kinds();
    let observed = WatchedKinds::of(scenario);
    let written = effects.iter().filter_map(|effect| {
        let (_, path) = effect.description.split_once(' ')?;
        kinds.of_path(path)
    });
    written
        .filter(|kind| !["Event", "Lease"].contains(&kind.kind) && !observed.contains(kind))
        .map(|kind| ObjectReference {
            api_version: Some(kind.api_version.to_owned()),
            ..ObjectReference::new(kind.kind, "*")
        })
        .collect()
}

fn failed(result: RunResult, reason: String) -> RunResult {
    RunResult {
        failure: Some(FailureResult::new(Cause::Run, result.stage_seconds, reason)),
        ..result
    }
}

fn print_mask(mask: &Mask, seed: u64) {
    inform!(
        "differences between the undisturbed runs of seeds {seed} and {}:",
        seed.wrapping_add(1)
    );
    for line in mask.lines() {
        inform!("     {line}");
    }
}
