//! `drydock crash`: mcm crashes at every effect of a scenario, before and after it, and is started
//! again; every run must pass and end as the undisturbed one does.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use sim::Effect;

use super::run::summarise;
use super::stage::StageArguments;
use super::{Ended, Usage, find, jobs};
use crate::plan::Disturbance;
use crate::runner::{FailureResult, Job, RunResult};
use crate::scenario::Scenario;
use crate::scenario::builder::{slack, wait};
use crate::scenario::step::{Crash, Moment, Process};
use crate::stage::StageKind;

#[derive(Args, Debug)]
pub(super) struct CrashCommand {
    /// The scenario
    name: String,

    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Runs at the same time; the default is the number of cores
    #[arg(long, value_name = "COUNT")]
    jobs: Option<usize>,

    /// A planted defect of mcm (builds with mutants)
    #[arg(long, value_name = "NAME", hide = true)]
    mutant: Option<String>,

    /// Where a failed run leaves its folder
    #[arg(long, value_name = "FOLDER", default_value = ".drydock/reports")]
    report: PathBuf,
}

impl CrashCommand {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        // What is still under way when the last expectation is met comes to rest before ends are compared.
        let scenario = find(scenarios, &self.name)?.step(wait(slack()));
        let clean = Job {
            mutant: self.mutant.clone(),
            reports: self.report.clone(),
            ..Job::new(scenario, StageKind::Sim, self.seed)
        };
        let mut results = jobs::run(vec![clean.clone()], self.jobs, &StageArguments::default())?;
        let Some(undisturbed) = results.first().filter(|result| result.passed()).cloned() else {
            return Ok(summarise(&results));
        };
        let points = crash_points(&undisturbed.effects);
        if points.is_empty() {
            return Err(Usage(format!(
                "mcm does nothing in scenario {}: there is nothing to crash at",
                self.name
            )));
        }
        println!("{} effects, {} crash points", undisturbed.effects.len(), points.len());
        let plans = points
            .into_iter()
            .map(|point| Job {
                disturbances: vec![Disturbance::Crash(point)],
                ..clean.clone()
            })
            .collect();
        let mut disturbed = jobs::run(plans, self.jobs, &StageArguments::default())?;
        for result in &mut disturbed {
            compare(&undisturbed, result);
        }
        results.extend(disturbed);
        Ok(summarise(&results))
    }
}

/// Before and after every effect, less the renewals of a held Lease after the first: a crash there is one between
/// its neighbours, and a scenario of hours has thousands of them.
pub(crate) fn crash_points(effects: &[Effect]) -> Vec<Crash> {
    let mut leases = 0;
    let mut points = Vec::new();
    for effect in effects {
        if effect.description.contains("/leases") {
            leases += 1;
            if leases > 2 {
                continue;
            }
        }
        points.extend([Moment::Before, Moment::After].map(|at| Crash {
            process: Process::Mcm,
            at,
            effect: effect.number,
        }));
    }
    points
}

/// How many characters two texts have in common from the start.
fn first_difference(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

/// The surroundings of a place in a text.
fn excerpt(text: &str, place: usize) -> String {
    text.chars().skip(place.saturating_sub(60)).take(140).collect()
}

/// A run that passed must also end as the undisturbed one did.
fn compare(undisturbed: &RunResult, result: &mut RunResult) {
    if result.passed() && result.end != undisturbed.end {
        let what: BTreeSet<&String> = undisturbed.end.keys().chain(result.end.keys()).collect();
        let differs = what.into_iter().find_map(|what| {
            let (is, was) = (result.end.get(what), undisturbed.end.get(what));
            let (is, was) = (
                is.map_or("nothing", String::as_str),
                was.map_or("nothing", String::as_str),
            );
            (is != was).then(|| {
                let from = first_difference(is, was);
                format!("{what} has {}; undisturbed: {}", excerpt(is, from), excerpt(was, from))
            })
        });
        let reason = format!("it ends otherwise than undisturbed: {}", differs.unwrap_or_default());
        println!("FAIL {}: {reason}", result.replay);
        result.failure = Some(FailureResult {
            after_seconds: result.stage_seconds,
            step: 0,
            invariant: None,
            reason,
        });
    }
}
