//! Several jobs side by side: a process a simulated job, tasks on the wall clock.

use std::process::Stdio;

use futures::StreamExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::progress::Progress;
use super::stage::StageArguments;
use super::{Interrupts, Usage, block_on, session};
use crate::runner::{self, Job, RunResult};
use crate::stage::StageKind;
use crate::stage::child::this_program;

/// How many jobs run side by side: as many as were asked for, or one a core.
pub(super) fn at_once(asked: Option<usize>) -> Result<usize, Usage> {
    match asked {
        Some(0) => Err(Usage("--jobs 0 would run nothing; give a number from 1".to_owned())),
        Some(asked) => Ok(asked),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Runs all jobs and shows how they go; in the order of `jobs`.
pub(super) fn run(jobs: Vec<Job>, asked: Option<usize>, arguments: &StageArguments) -> Result<Vec<RunResult>, Usage> {
    let at_once = at_once(asked)?;
    block_on(async {
        let progress = Progress::new(jobs.len());
        let stages = jobs.first().map(|job| (job.stage, job.target));
        if let Some((stage, target)) = stages.filter(|(stage, target)| stage.shared_of(*target).is_some()) {
            let start = session::Start {
                stage,
                target,
                arguments,
                reports: &jobs[0].reports,
                progress: progress.teller(),
            };
            return Box::pin(session::run(start, &jobs, |result| progress.finished(result))).await;
        }
        let work = async {
            let mut results: Vec<(usize, RunResult)> = futures::stream::iter(jobs.iter().enumerate())
                .map(|(index, job)| async move { (index, run_one(job).await) })
                .buffer_unordered(at_once)
                .inspect(|(_, result)| progress.finished(result))
                .collect()
                .await;
            results.sort_by_key(|(index, _)| *index);
            results.into_iter().map(|(_, result)| result).collect()
        };
        // Heard from now on: what the first moment of a job makes is removed, too.
        let mut interrupts = Interrupts::new()?;
        tokio::select! {
            biased;
            () = interrupts.next() => Err(Usage("interrupted".to_owned())),
            results = work => Ok(results),
        }
    })?
}

async fn run_one(job: &Job) -> RunResult {
    match job.stage {
        StageKind::Sim => run_simulated(job).await,
        StageKind::Embedded | StageKind::Envtest => Box::pin(runner::run_on_wall_clock(job)).await,
        StageKind::Kubeconfig | StageKind::Kind => {
            RunResult::broken(job, format!("jobs on stage {} run in a session", job.stage))
        }
    }
}

/// Runs a simulated job in a process of its own: hash keys drift within one. Dropping this ends the process.
pub(super) async fn run_simulated(job: &Job) -> RunResult {
    match run_in_process(job).await {
        Ok(result) => result,
        Err(reason) => RunResult::broken(job, reason),
    }
}

async fn run_in_process(job: &Job) -> Result<RunResult, String> {
    let cannot = |error: std::io::Error| format!("cannot start a process for the simulation: {error}");
    let mut child = Command::new(this_program().map_err(cannot)?)
        .arg("perform")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    let process = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let text = serde_json::to_vec(job).map_err(|error| format!("the job has no JSON form: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&text).await.map_err(cannot)?;
    }
    let Ok(output) = tokio::time::timeout(job.plan.limits.wall_time.0, child.wait_with_output()).await else {
        if let Some(process) = process {
            let _ = kill(process, Signal::SIGKILL);
        }
        return Err(format!(
            "it runs away: the simulation took longer than {} by the wall clock (limits.wallTime) and was ended",
            job.plan.limits.wall_time
        ));
    };
    let output = output.map_err(cannot)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr);
        format!(
            "the simulation ended without a result ({}): {}",
            output.status,
            words.trim()
        )
    })
}
