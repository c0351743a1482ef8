//! Runs one job: starts a stage, performs the scenario with its disturbances, and records the result.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::record::RunRecord;
use ::sim::Trace;
use clock::{Clock, LostTime};
use judge::evaluate::between;
use scenario::job::Job;
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use scenario::{StageKind, Timeouts};
use stage::plane::envtest::Spares;
use stage::plane::{Plane, PlaneError, Planes};
use stage::role::Role;
use stage::{NAMESPACE, StageResult, processes, sim};
use tokio::sync::Semaphore;

use crate::engine::ScenarioEngine;
use crate::engine::recording::Recording;
use crate::report::record::{self, Ran};
use crate::report::{folder, store};

/// Runs a job in virtual time, in this process. Exact replay requires one process for each job.
pub fn run_simulated(job: &Job) -> RunResult {
    let wall = Clock::wall();
    let started = wall.now();
    let engine = ScenarioEngine::of(job);
    let ran = sim::run(job, &engine);
    finish(job, &ran, &engine.recording, between(started, wall.now()))
}

/// A run that was followed while it was in progress.
#[derive(Debug)]
pub struct FollowedRun {
    /// Its result.
    pub result: RunResult,
    /// Its complete record.
    pub record: io::Result<RunRecord>,
}

/// Runs a job in virtual time, in this process, with a follower. `trace` returns the trace that the follower received;
/// `is_current`, whether this is still the run that is followed. `None`: another run takes its place, and this one has no result.
pub fn run_followed(
    job: &Job,
    engine: &ScenarioEngine,
    trace: impl FnOnce() -> Option<Trace>,
    is_current: impl FnOnce() -> bool,
) -> Option<FollowedRun> {
    let wall = Clock::wall();
    let started = wall.now();
    let mut ran = sim::run(job, engine);
    if !is_current() {
        return None;
    }
    if let Some(trace) = trace() {
        (ran.entries, ran.processes) = (trace.entries(), trace.process_entries());
    }
    let recorder = engine.recording.copy();
    // The follower shows the recording until it has the complete record.
    let recording = Recording::of(recorder.clone());
    let result = finish(job, &ran, &recording, between(started, wall.now()));
    let stage = Ran { stage: &ran, recorder };
    Some(FollowedRun {
        record: record::complete(job, &result, Some(stage)),
        result,
    })
}

/// State that jobs with separate control planes share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Servers that earlier jobs of this worker used.
    pub spares: Arc<Spares>,
    /// Limits the number of worlds that start at the same time. Starting one uses a whole core, so that many
    /// simultaneous starts would starve the running ones.
    pub starts: Arc<Semaphore>,
}

/// Runs a job on the wall clock. It has exclusive use of a control plane while it runs.
pub async fn run_on_wall_clock(job: &Job, shared: &Shared) -> RunResult {
    let engine = ScenarioEngine::of(job);
    let run = Box::pin(async {
        let mut timeouts = match job.stage {
            StageKind::Envtest => Timeouts::on_etcd(),
            _ if job.target == Some(StageKind::Envtest) => Timeouts::on_etcd(),
            _ => Timeouts::short(),
        };
        timeouts.lost = LostTime::measured_with_descendants();
        // The semaphore is never closed.
        let start = shared.starts.clone().acquire_owned().await.ok();
        match Box::pin(planes(job, &timeouts, &shared.spares)).await {
            Ok(planes) => Box::pin(processes::run(job, &engine, planes, timeouts, start)).await,
            Err(error) => StageResult::new(Err(error.into()), BTreeMap::new()),
        }
    });
    timed(job, &engine.recording, run).await
}

/// Starts the control planes of a job: one for both clusters, or one for each.
async fn planes(job: &Job, timeouts: &Timeouts, spares: &Arc<Spares>) -> Result<Planes, PlaneError> {
    let plane = |stage, role| Plane::start(stage, role, NAMESPACE, job.plan.seed, timeouts, spares);
    let Some(target) = job.target else {
        return Ok(Planes::one(plane(job.stage, Role::Both).await?));
    };
    let control = plane(job.stage, Role::Control).await?;
    Ok(Planes::two(control, plane(target, Role::Target).await?))
}

/// Measures a run on a stage, converts its outcome to a result, and writes the report of a failed run.
pub async fn timed(job: &Job, recording: &Recording, run: impl Future<Output = StageResult>) -> RunResult {
    let (wall, lost) = (Clock::wall(), LostTime::measured_with_descendants());
    let started = wall.now();
    let ran = run.await;
    RunResult {
        lost_seconds: lost.since(started).as_secs_f64(),
        ..finish(job, &ran, recording, between(started, wall.now()))
    }
}

/// Fails a run that passed although a step or a disturbance had no effect, unless the plan permits it.
fn note_misses(job: &Job, ran: &StageResult, result: &mut RunResult) {
    let Ok(outcome) = &ran.outcome else { return };
    if result.failure.is_some() {
        return;
    }
    let plan = &job.plan;
    let step = outcome.misses.first().filter(|_| !plan.steps_may_miss());
    let without_hits = plan
        .disturbances
        .iter()
        .zip(&result.disturbances)
        .find(|(disturbance, counted)| counted.hits == 0 && !plan.may_disturbance_miss(disturbance));
    let (step, reason) = match (step, without_hits) {
        (Some(miss), _) => (miss.step, miss.reason.clone()),
        (None, Some((_, counted))) => (0, format!("the disturbance hit nothing: {}", counted.what)),
        (None, None) => return,
    };
    let reason = format!("{reason}; set `mayMiss: true` if that is intended");
    result.failure = Some(FailureResult {
        step,
        ..FailureResult::new(Cause::NoEffect, result.stage_seconds, reason)
    });
}

/// Adds refused requests to the result: as a failure, or to the reason of an existing failure.
fn note_refusals(job: &Job, result: &mut RunResult, refused: &BTreeSet<String>) {
    if refused.is_empty() {
        return;
    }
    let list: Vec<&str> = refused.iter().map(String::as_str).collect();
    let roles = match job.controller {
        None => "deploy/rbac does not allow it",
        Some(_) => "the roles in the world's manifests do not allow it",
    };
    let message = format!("the API server refused {}: {roles}", list.join(", "));
    match &mut result.failure {
        Some(failure) => failure.reason += &format!(" ({message})"),
        None => {
            result.failure = Some(FailureResult::new(Cause::Run, result.stage_seconds, message));
        }
    }
}

fn finish(job: &Job, ran: &StageResult, recording: &Recording, wall: Duration) -> RunResult {
    let mut result = RunResult::broken(job, String::new());
    result.failure = match &ran.outcome {
        Ok(outcome) => outcome.failure.as_ref().map(|failure| FailureResult {
            after_seconds: failure.after.as_secs_f64(),
            step: failure.step,
            invariant: failure.invariant.map(str::to_owned),
            expectation: failure.expectation,
            reason: failure.reason.clone(),
            signature: failure.signature.clone(),
        }),
        Err(error) => Some(FailureResult::new(Cause::Run, 0.0, error.to_string())),
    };
    if let Ok(outcome) = &ran.outcome {
        result.stage_seconds = outcome.lasted.as_secs_f64();
        result.end = outcome.end.clone();
        result.faults = outcome.world.faults.clone();
        result.occurred = judge::occurred::in_world(&outcome.world);
    }
    result.disturbances = job.hits(&ran.hits);
    for disturbance in result.disturbances.iter().filter(|disturbance| disturbance.hits > 0) {
        *result.occurred.faults.entry(disturbance.kind.clone()).or_default() += disturbance.hits;
    }
    result.wall_seconds = wall.as_secs_f64();
    result.trace = ran.trace.clone();
    result.effects = ran.effects.clone();
    result.writes = ran.writes.clone();
    result.requests = ran.requests.clone();
    note_misses(job, ran, &mut result);
    note_refusals(job, &mut result, &ran.refused);
    let recorder = recording.take();
    if let Some(recorder) = &recorder {
        let evaluated = recorder.evaluated().map(|(name, times)| (name.to_owned(), times));
        result.occurred.invariants = evaluated.collect();
    }
    let ran = Ran { stage: ran, recorder };
    report(job, &mut result, Some(ran));
    result
}

/// Adds the narrative to the result of a run that passed, and writes its record, as far as the job requests them.
fn record_passed(job: &Job, result: &mut RunResult, ran: Option<Ran<'_>>) -> io::Result<()> {
    let folder = job
        .record
        .as_ref()
        .map(|folder| store::create_numbered(folder, &job.report_name()))
        .transpose()?;
    if let Some(folder) = &folder {
        result.replay = job.replay(folder);
    }
    let record = record::complete(job, result, ran)?;
    if job.narrate {
        result.narrative = record::texts(&record);
    }
    if let Some(folder) = folder {
        record::write_passed(&folder, &record)?;
        result.record = Some(folder);
    }
    Ok(())
}

/// Writes the report of a failed run, or marks the earlier reports of a run that passed and writes its record if the job
/// requests one.
pub(crate) fn report(job: &Job, result: &mut RunResult, ran: Option<Ran<'_>>) {
    if result.passed() {
        // The mark is only informative.
        let _ = store::mark_passing(job, result, Clock::wall().now(), false);
        if (job.narrate || job.record.is_some())
            && let Err(error) = record_passed(job, result, ran)
        {
            let reason = format!("cannot write the record: {error}");
            result.failure = Some(FailureResult::new(Cause::Run, result.stage_seconds, reason));
        }
        return;
    }
    if let Err(error) = folder::write(job, result, ran)
        && let Some(failure) = &mut result.failure
    {
        failure.reason += &format!(" (cannot write the report: {error})");
    }
}
