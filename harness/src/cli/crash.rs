//! `drydock crash`: crashes the controller before and after every effect of a scenario and starts it again, or lets its
//! watches lag from an effect on. Every run must pass and have the same final state as the undisturbed run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use clock::Clock;
use judge::evaluate::{between, short};
use scenario::builder::{seconds, slack, wait};
use scenario::job::Job;
use scenario::plan::{Disturbance, Lag};
use scenario::result::Effect;
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use scenario::step::{CloudCall, Crash, Fault, Moment, Process, Step};
use scenario::{DurationExpression, ObjectReference, Scenario, StageKind};
use terminal::failure;

use super::files::read_scenario;
use super::output::{inform, say};
use super::run::summarise;
use super::stage::StageArguments;
use super::{Ended, Stop, jobs, named, progress};
use crate::campaign::mask::Mask;
use crate::engine::watched_kinds::WatchedKinds;
use crate::report::{json, junit, store};
use crate::runner;

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
    after_help = "Examples:\n  drydock crash lifecycle\n  drydock crash --file my.yaml --controller ./my-controller --lag 2s"
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

    /// Instead of a crash: from each effect on, for twice this time, the controller sees all changes this much later
    #[arg(long, value_name = "TIME", conflicts_with = "pairs")]
    lag: Option<DurationExpression>,

    /// How long the controller may work after the last expectation, before the final states are compared. The default is
    /// 10s with --controller, else slack; a controller that waits for its old Lease needs longer
    #[arg(long, value_name = "TIME")]
    settle: Option<DurationExpression>,

    /// Only these effects: before:N, after:N, or N for both sides and for --lag; may be given several times
    #[arg(long, value_name = "EFFECT", value_parser = parse_only)]
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

    /// The scenarios of those names, and those of suites that can run on the stage.
    fn choose(&self, scenarios: &[Scenario]) -> Result<Vec<(Scenario, Option<PathBuf>)>, Stop> {
        let stage = self.stage();
        let by_name = named(scenarios, &self.names, |scenario| scenario.runs_on(stage))?;
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
        let settle = self.settle();
        let mut clean = Job {
            file,
            controller: self.controller.clone(),
            effects: true,
            reports: self.report.clone(),
            ..Job::new(scenario.step(wait(settle)), self.stage(), self.seed)
        };
        clean.plan.mutant.clone_from(&self.mutant);
        let mut pair = self.run_undisturbed(&clean, results)?;
        if let [first, ..] = pair.as_slice()
            && first.passed()
            && self.controller.is_some()
        {
            let kinds = written_kinds(&clean.plan.scenario, &first.effects);
            if !kinds.is_empty() {
                let names: Vec<&str> = kinds.iter().map(|created| created.kind.as_str()).collect();
                say!(
                    "the controller also writes objects of kind {}, which are compared, too",
                    names.join(", ")
                );
                clean.plan.scenario.world.creates.extend(kinds);
                pair = self.run_undisturbed(&clean, results)?;
            }
        }
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
        let points = crash_points(&undisturbed.effects, 0);
        if points.is_empty() {
            return Err(Stop::Usage(format!(
                "the controller has no effects in scenario {name}: it writes nothing to the API server and calls no cloud"
            )));
        }
        let plan = |disturbances: Vec<Disturbance>| {
            let mut job = clean.clone();
            job.plan.disturbances = disturbances;
            // On a wall clock a controller may have fewer effects than in the undisturbed run.
            job.plan.may_miss = self.controller.is_some();
            job
        };
        let crashes = |crashes: &[Crash]| plan(crashes.iter().copied().map(Disturbance::Crash).collect());
        let selected = points.iter().copied().filter(|point| match self.lag {
            Some(_) => self.selects(None, point.effect),
            None => self.selects(Some(point.at), point.effect),
        });
        let points: Vec<Crash> = selected.collect();
        if points.is_empty() {
            return Err(Stop::Usage(format!(
                "--only selects no effect of scenario {name}, which has {}",
                undisturbed.effects.len()
            )));
        }
        let jobs: Vec<Job> = match &self.lag {
            Some(by) => lags(&points, by).into_iter().map(|lag| plan(vec![lag])).collect(),
            None => points.iter().map(|point| crashes(&[*point])).collect(),
        };
        let what = if self.lag.is_some() { "lags" } else { "crash points" };
        inform!("{} effects, {} {what}", undisturbed.effects.len(), jobs.len());
        let once = self.run(jobs.clone(), results)?;
        let mut disturbed = self.judge(&mask, undisturbed, &jobs, once.clone());
        if self.pairs && points.len() <= MOST_POINTS_FOR_PAIRS {
            let pairs = points.iter().zip(&once).flat_map(|(first, result)| {
                let second = crash_points(&result.effects, first.effect);
                let selected = second
                    .into_iter()
                    .filter(|second| self.selects(Some(second.at), second.effect));
                selected.map(move |second| [*first, second])
            });
            let jobs: Vec<Job> = pairs.map(|pair| crashes(&pair)).collect();
            let twice = self.run(jobs.clone(), results)?;
            disturbed.extend(self.judge(&mask, undisturbed, &jobs, twice));
        } else if self.pairs {
            inform!("{name} has too many crash points for pairs: the maximum is {MOST_POINTS_FOR_PAIRS}");
        }
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

impl CrashCommand {
    /// Fails runs that passed with another final state than the undisturbed run, and writes their reports.
    fn judge(&self, mask: &Mask, undisturbed: &RunResult, jobs: &[Job], disturbed: Vec<RunResult>) -> Vec<RunResult> {
        let judge = |(job, result): (&Job, RunResult)| match mask.difference(&undisturbed.end, &result.end) {
            Some(difference) if result.passed() => {
                let reason = format!("the final state differs from the undisturbed run: {difference}");
                let failure = FailureResult::new(Cause::End, result.stage_seconds, reason);
                let mut result = RunResult {
                    failure: Some(failure),
                    replay: self.replay(job),
                    ..result
                };
                runner::record(job, &mut result, None);
                progress::print("", &result);
                result
            }
            None if result.passed() => {
                // The mark is only informative.
                let _ = store::mark_passing(job, &result, Clock::wall().now(), true);
                result
            }
            _ => result,
        };
        jobs.iter().zip(disturbed).map(judge).collect()
    }

    /// The command that repeats one disturbed run and compares its end.
    fn replay(&self, job: &Job) -> String {
        let mut line = match &job.file {
            Some(file) => format!("drydock crash --file {}", file.display()),
            None => format!("drydock crash {}", job.plan.scenario.name),
        };
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        for disturbance in &job.plan.disturbances {
            match disturbance {
                Disturbance::Crash(Crash { at, effect, .. }) => line += &format!(" --only {at}:{effect}"),
                Disturbance::Lag(lag) => {
                    line += &format!(" --lag {} --only {}", quoted(&lag.by.to_string()), lag.effect)
                }
                _ => {}
            }
        }
        if job.plan.disturbances.len() > 1 {
            line += " --pairs";
        }
        line += &format!(" --seed {}", self.seed);
        if let Some(settle) = &self.settle {
            line += &format!(" --settle {}", quoted(&settle.to_string()));
        }
        if let Some(command) = &self.controller {
            line += &format!(" --controller {}", quoted(command));
        }
        line
    }

    /// Whether `--only` selects an effect, of which a lag begins and a crash happens before or after it.
    fn selects(&self, at: Option<Moment>, effect: u64) -> bool {
        let is = |only: &Only| only.effect == effect && (only.at.is_none() || at.is_none() || only.at == at);
        self.only.is_empty() || self.only.iter().any(is)
    }
}

/// An effect that `--only` selects, and the side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Only {
    at: Option<Moment>,
    effect: u64,
}

fn parse_only(text: &str) -> Result<Only, String> {
    let wrong = || format!("{text:?} is no effect: write before:N, after:N or N, with N from 1");
    let (at, effect) = match text.split_once(':') {
        Some(("before", effect)) => (Some(Moment::Before), effect),
        Some(("after", effect)) => (Some(Moment::After), effect),
        Some(_) => return Err(wrong()),
        None => (None, text),
    };
    let effect = effect.parse().ok().filter(|effect| *effect > 0).ok_or_else(wrong)?;
    Ok(Only { at, effect })
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

/// One lag for each effect of these crash points.
fn lags(points: &[Crash], by: &DurationExpression) -> Vec<Disturbance> {
    let before = points.iter().filter(|point| point.at == Moment::Before);
    let lags = before.map(|point| {
        Disturbance::Lag(Lag {
            process: Process::Mcm,
            effect: point.effect,
            by: by.clone(),
            lasts: Some(2 * by.clone()),
        })
    });
    lags.collect()
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

/// Crash points before and after every effect with a number above `after`, except effects that repeat others: renewals
/// of a Lease after the first one, and attempts to evict a pod except the first two and the last two. A crash at such
/// an effect is equivalent to one between its neighbours, and a scenario of hours has thousands of them.
pub(crate) fn crash_points(effects: &[Effect], after: u64) -> Vec<Crash> {
    let repeated = repeated(effects);
    let matters = |effect: &&Effect| effect.number > after && !repeated.contains(&effect.number);
    let both = |effect: &Effect| {
        [Moment::Before, Moment::After].map(|at| Crash {
            process: Process::Mcm,
            at,
            effect: effect.number,
            may_miss: false,
        })
    };
    effects.iter().filter(matters).flat_map(both).collect()
}

/// The numbers of effects that only repeat others.
fn repeated(effects: &[Effect]) -> BTreeSet<u64> {
    let mut leases = Vec::new();
    let mut attempts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for effect in effects {
        if is_lease(effect) {
            leases.push(effect.number);
        } else if is_eviction(effect) {
            attempts.entry(&effect.description).or_default().push(effect.number);
        }
    }
    let in_between = attempts
        .into_values()
        .filter_map(|numbers| Some(numbers.get(2..numbers.len().checked_sub(2)?)?.to_vec()));
    leases.into_iter().skip(2).chain(in_between.flatten()).collect()
}

fn is_lease(effect: &Effect) -> bool {
    effect.description.contains("/leases")
}

fn is_eviction(effect: &Effect) -> bool {
    effect.description.contains("/eviction")
}

/// Whether the effects of mcm differ from the undisturbed run in number or order. The repetition of an effect that a
/// crash prevented does not count.
fn changed_path(undisturbed: &RunResult, disturbed: &RunResult) -> bool {
    let prevented = |effect: &Effect| {
        disturbed
            .disturbances
            .iter()
            .any(|disturbance| disturbance.what.ends_with(&format!("before effect {}", effect.number)))
    };
    let path = |effects: &[Effect], prevented: &dyn Fn(&Effect) -> bool| -> Vec<String> {
        let kept = effects.iter().filter(|effect| !is_lease(effect) && !prevented(effect));
        kept.map(without_random_name).collect()
    };
    path(&undisturbed.effects, &|_| false) != path(&disturbed.effects, &prevented)
}

/// The description of an effect without the random names of Events and bootstrap token Secrets.
fn without_random_name(effect: &Effect) -> String {
    let text = effect.description.as_str();
    let collection = ["/events/", "/secrets/"]
        .into_iter()
        .find_map(|collection| text.find(collection));
    text[..collection.unwrap_or(text.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use scenario::result::EffectKind;

    use super::*;

    fn effects(descriptions: &[&str]) -> Vec<Effect> {
        let effect = |(number, description): (u64, &&str)| Effect {
            number,
            incarnation: 1,
            kind: EffectKind::ApiWrite,
            description: (*description).to_owned(),
        };
        (1..).zip(descriptions).map(effect).collect()
    }

    #[test]
    fn only_the_first_renewal_of_a_lease_is_a_crash_point() {
        let effects = effects(&[
            "POST /leases",
            "PUT /leases/a",
            "CreateMachine",
            "PUT /leases/a",
            "PUT /machines/m",
        ]);
        let points = |after| -> Vec<u64> {
            let points = crash_points(&effects, after);
            points.iter().map(|point| point.effect).collect()
        };
        assert_eq!(points(0), [1, 1, 2, 2, 3, 3, 5, 5]);
        assert_eq!(points(2), [3, 3, 5, 5]);
    }

    #[test]
    fn the_first_two_and_the_last_two_evictions_of_a_pod_are_crash_points() {
        let attempt = "POST /api/v1/namespaces/ns/pods/a/eviction";
        let other = "POST /api/v1/namespaces/ns/pods/b/eviction";
        let effects = effects(&[
            attempt, attempt, attempt, other, attempt, attempt, attempt, other, other,
        ]);
        let points: BTreeSet<u64> = crash_points(&effects, 0).iter().map(|point| point.effect).collect();
        assert_eq!(points, BTreeSet::from([1, 2, 4, 6, 7, 8, 9]));
    }

    #[test]
    fn the_repetition_of_a_prevented_effect_does_not_change_the_path() {
        let run = |descriptions: &[&str], crash: Option<(Moment, u64)>| {
            let crash = crash.map(|(at, effect)| Crash {
                process: Process::Mcm,
                at,
                effect,
                may_miss: false,
            });
            let mut job = Job::new(Scenario::new("story", ""), StageKind::Sim, 1);
            job.plan.disturbances = crash.map(Disturbance::Crash).into_iter().collect();
            RunResult {
                effects: effects(descriptions),
                ..RunResult::broken(&job, String::new())
            }
        };
        let clean = run(&["POST /events/a", "CreateMachine"], None);
        let repeated = run(
            &["POST /events/b", "CreateMachine", "CreateMachine"],
            Some((Moment::Before, 2)),
        );
        let with_status_call = run(
            &["POST /events/b", "CreateMachine", "GetMachineStatus"],
            Some((Moment::After, 2)),
        );
        assert!(!changed_path(&clean, &repeated));
        assert!(changed_path(&clean, &with_status_call));
    }
}
