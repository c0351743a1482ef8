//! Compares the ends of disturbed runs with that of the undisturbed run.

use clock::Clock;
use scenario::job::Job;
use scenario::plan::Disturbance;
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use scenario::step::{Crash, Process};

use super::{CrashCommand, CrashTarget};
use crate::campaign::mask::Mask;
use crate::cli::progress;
use crate::report::store;
use crate::runner;

impl CrashCommand {
    /// Fails runs that passed with another final state than the undisturbed run, and writes their reports.
    pub(super) fn judge(
        &self,
        mask: &Mask,
        undisturbed: &RunResult,
        jobs: &[Job],
        disturbed: Vec<RunResult>,
    ) -> Vec<RunResult> {
        let judge = |(job, result): (&Job, RunResult)| match mask.difference(&undisturbed.end, &result.end) {
            Some(difference) if result.passed() => {
                let reason = format!("the final state differs from the undisturbed run: {difference}");
                let failure = FailureResult::new(Cause::End, result.stage_seconds, reason);
                let mut result = RunResult {
                    failure: Some(failure),
                    replay: self.replay(job),
                    ..result
                };
                runner::report(job, &mut result, None);
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
        let mut line = format!("drydock crash {}", job.scenario_argument());
        for disturbance in &job.plan.disturbances {
            match disturbance {
                Disturbance::Crash(Crash { at, effect, .. }) => line += &format!(" --only {at}:{effect}"),
                Disturbance::Lag(lag) => line += &format!(" --lag '{}' --only {}", lag.by, lag.effect),
                _ => {}
            }
        }
        if job.plan.disturbances.len() > 1 {
            line += " --pairs";
        }
        if self.process != CrashTarget::Mcm {
            line += &format!(" --process {}", Process::from(self.process));
        }
        line += &format!(" --seed {}", self.seed);
        if let Some(settle) = &self.settle {
            line += &format!(" --settle '{settle}'");
        }
        if let Some(mutant) = &self.mutant {
            line += &format!(" --mutant {mutant}");
        }
        line + &job.controller_flag()
    }
}
