//! Runs jobs in parallel: workers, each on its own thread, take jobs from one queue.
//!
//! A simulated job runs in its own process; a job on `embedded` starts its own control plane. The jobs of one worker
//! share an etcd and kube-apiserver (`envtest`) or a cluster.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use clock::{Clock, LostTime};
use jiff::{SignedDuration, Timestamp};
use judge::evaluate::{between, short};
use mcm_api::GoDuration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use scenario::job::Job;
use scenario::result::RunResult;
use scenario::{StageKind, Timeouts};
use stage::child::this_program;
use stage::kind;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::output::inform;
use super::progress::Progress;
use super::session::{ConfirmedClusters, Session, Start};
use super::stage::StageArguments;
use super::{Interrupt, Interrupts, Stop, availability, durations, open_files, runtime};
use crate::engine::ScenarioEngine;
use crate::runner::{self, Shared};

/// Number of parallel scenarios per core on the wall clock, where they mostly wait. `make e2e` is fastest with it.
const WAITING_PER_CORE: usize = 16;
/// Number of parallel scenarios per core if each has an etcd and a kube-apiserver.
const CONTROL_PLANES_PER_CORE: usize = 7;
/// Default number of kind clusters: each takes 0.9 GB of memory.
const CLUSTERS: usize = 1;

/// No job starts if threads waited for a core for longer than this in the last two seconds.
const BUSY: Duration = Duration::from_secs(1);
/// Share of lost time from which a run is reported as starved of CPU.
const STARVED: f64 = 0.4;

/// Number of parallel jobs if each keeps a core busy: the requested number, or one for each core.
pub(super) fn at_once(requested: Option<usize>) -> Result<usize, Stop> {
    match requested {
        Some(0) => Err(Stop::Usage(
            "--jobs 0 would run nothing; use a number from 1".to_owned(),
        )),
        Some(requested) => Ok(requested),
        None => Ok(cores()),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of workers: the requested number, or a default for the stage and the host.
fn workers(requested: Option<usize>, job: &Job, arguments: &StageArguments) -> Result<usize, Stop> {
    if job.stage == StageKind::Sim {
        return at_once(requested);
    }
    let one_cluster = job.stage.shared_of(job.target).is_some() && !arguments.may_have_several(job.stage, job.target);
    let default = match job.stage {
        _ if one_cluster => 1,
        StageKind::Kind => CLUSTERS,
        StageKind::Envtest => CONTROL_PLANES_PER_CORE * cores(),
        _ if job.target == Some(StageKind::Envtest) => CONTROL_PLANES_PER_CORE * cores(),
        _ => WAITING_PER_CORE * cores(),
    };
    match requested {
        None => open_files::limit_jobs(default),
        Some(requested) => open_files::check_jobs(at_once(Some(requested))?),
    }
}

/// A report of a worker.
enum Event {
    /// It started a job.
    Started { worker: usize, index: usize },
    /// It finished a job.
    Finished {
        worker: usize,
        index: usize,
        result: Box<RunResult>,
    },
}

/// State that all workers share.
struct Work<'a> {
    jobs: &'a [Job],
    /// Indexes of jobs that no worker has taken yet.
    queue: Mutex<VecDeque<usize>>,
    arguments: &'a StageArguments,
    confirmed: ConfirmedClusters,
    progress: kind::Progress,
    /// Cancelled when the run is interrupted, or when a worker fails.
    stop: CancellationToken,
    /// See [`Shared::starts`].
    starts: Arc<Semaphore>,
    /// Number of running jobs.
    running: AtomicUsize,
    lost: LostTime,
}

/// The results of jobs.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// In the order of the jobs; `None`: the job was not performed, because of an interrupt.
    pub(super) results: Vec<Option<RunResult>>,
    /// The interrupt.
    pub(super) interrupt: Option<Interrupt>,
}

impl Finished {
    /// The results of the performed jobs.
    pub(super) fn performed(self) -> Vec<RunResult> {
        self.results.into_iter().flatten().collect()
    }

    /// The number of jobs that were not performed.
    pub(super) fn left(&self) -> usize {
        self.results.iter().filter(|result| result.is_none()).count()
    }
}

/// Runs all jobs and shows their progress. An interrupt ends the running jobs.
///
/// # Errors
/// An invalid number of jobs, or a stage that cannot be used. In all cases everything that was created is removed.
pub(super) fn run(jobs: Vec<Job>, requested: Option<usize>, arguments: &StageArguments) -> Result<Finished, Stop> {
    let Some(first) = jobs.first() else {
        return Ok(Finished::default());
    };
    availability::check([Some(first.stage), first.target].into_iter().flatten())?;
    let workers = workers(requested, first, arguments)?.min(jobs.len());
    // Asks before the signal handlers are installed, so that Ctrl-C ends the question.
    let confirmed = ConfirmedClusters::ask(first, arguments)?;
    let progress = Progress::new(&jobs, workers);
    let (clock, lost) = (Clock::wall(), LostTime::measured());
    let started = clock.now();
    let work = Work {
        jobs: &jobs,
        queue: Mutex::new(longest_first(&jobs)),
        arguments,
        confirmed,
        progress: progress.line_printer(),
        stop: CancellationToken::new(),
        starts: Arc::new(Semaphore::new(cores())),
        running: AtomicUsize::new(0),
        lost: lost.clone(),
    };
    let (events, mut seen) = unbounded_channel();
    // Listens for interrupts before any worker starts, so that everything that it creates is removed.
    let runtime = runtime(1)?;
    let mut interrupts = {
        let _context = runtime.enter();
        Interrupts::new()?
    };
    let finished = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|worker| {
                let (work, events) = (&work, events.clone());
                scope.spawn(move || work.perform(worker, &events))
            })
            .collect();
        drop(events);
        let finished = runtime.block_on(work.collect(&progress, &mut seen, &mut interrupts));
        match (first_error(threads), finished.interrupt) {
            (None, _) => Ok(finished),
            // The partial results are reported in any case.
            (Some(stop), Some(_)) => {
                crate::cli::output::complain!("drydock: {stop}");
                Ok(finished)
            }
            (Some(stop), None) => Err(stop),
        }
    });
    runtime.shutdown_background();
    let finished = finished?;
    drop(progress);
    if finished.interrupt.is_some() {
        return Ok(finished);
    }
    let took = between(started, clock.now());
    durations::note(first.stage, jobs.len(), took);
    if first.stage != StageKind::Sim {
        report_lost_time(lost.since(started), took);
    }
    Ok(finished)
}

/// Waits for all workers; returns the first error of one that was not cancelled.
fn first_error(threads: Vec<ScopedJoinHandle<'_, Result<(), Stop>>>) -> Option<Stop> {
    let panicked = |_| Err(Stop::Usage("a worker panicked; its message is above".to_owned()));
    let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
    let stopped: Vec<Stop> = ended.filter_map(Result::err).collect();
    stopped.into_iter().find(|stop| !matches!(stop, Stop::Cancelled))
}

/// Prints a note if the host was too busy for a representative run.
fn report_lost_time(lost: Duration, took: Duration) {
    if lost > took.mul_f64(STARVED) {
        inform!(
            "note: this machine was short of CPU: threads waited {} for a core in {}, and deadlines were extended by \
             that time; run fewer scenarios in parallel with --jobs",
            short(lost),
            short(took)
        );
    }
}

impl Work<'_> {
    /// Collects the results until all workers have ended. The first interrupt ends the running jobs.
    async fn collect(
        &self,
        progress: &Progress,
        seen: &mut UnboundedReceiver<Event>,
        interrupts: &mut Interrupts,
    ) -> Finished {
        let mut finished = Finished {
            results: self.jobs.iter().map(|_| None).collect(),
            interrupt: None,
        };
        loop {
            tokio::select! {
                biased;
                interrupt = interrupts.next() => {
                    if self.stop.is_cancelled() {
                        crate::cli::output::complain!("drydock: the removal is still in progress; wait");
                    }
                    finished.interrupt.get_or_insert(interrupt);
                    self.stop.cancel();
                }
                event = seen.recv() => match event {
                    Some(Event::Started { worker, index }) => progress.started(worker, &self.jobs[index]),
                    Some(Event::Finished { worker, index, result }) => {
                        progress.finished(worker, &self.jobs[index], &result);
                        finished.results[index] = Some(*result);
                    }
                    None => return finished,
                },
            }
        }
    }

    /// Runs one worker: performs jobs one after another until the queue is empty or the run is stopped.
    fn perform(&self, worker: usize, events: &UnboundedSender<Event>) -> Result<(), Stop> {
        let runtime = runtime(1)?;
        let done = runtime.block_on(Box::pin(self.perform_jobs(worker, events)));
        runtime.shutdown_background();
        if done.is_err() {
            self.stop.cancel();
        }
        done
    }

    async fn perform_jobs(&self, worker: usize, events: &UnboundedSender<Event>) -> Result<(), Stop> {
        let start = Start {
            job: &self.jobs[0],
            arguments: self.arguments,
            confirmed: &self.confirmed,
            progress: self.progress.clone(),
        };
        let session = Box::pin(Session::start(start, &self.stop)).await?;
        let shared = Shared {
            spares: Arc::default(),
            starts: self.starts.clone(),
        };
        while let Some(index) = self.next_when_cpu_is_available().await {
            // Sending fails only if the receiver is dropped at the end of the run.
            let _ = events.send(Event::Started { worker, index });
            let job = &self.jobs[index];
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                result = run_one(job, session.as_ref(), &shared) => {
                    self.running.fetch_sub(1, Ordering::Relaxed);
                    let result = Box::new(result);
                    let _ = events.send(Event::Finished { worker, index, result });
                }
            }
        }
        match session {
            Some(session) => Box::pin(session.end(self.stop.is_cancelled())).await,
            None => Ok(()),
        }
    }

    /// The next job, as soon as the host has CPU capacity for it. If threads wait for a core most of the time, another
    /// scenario would only slow down the running ones.
    async fn next_when_cpu_is_available(&self) -> Option<usize> {
        let clock = Clock::wall();
        let is_on_wall_clock = self.jobs.first().is_some_and(|job| job.stage != StageKind::Sim);
        while is_on_wall_clock && self.running.load(Ordering::Relaxed) > 0 && !self.stop.is_cancelled() {
            let lately = clock.now().saturating_sub(SignedDuration::from_secs(2));
            if self.lost.since(lately.unwrap_or(Timestamp::MIN)) < BUSY {
                break;
            }
            clock.sleep(Duration::from_millis(250)).await;
        }
        let next = self.next()?;
        self.running.fetch_add(1, Ordering::Relaxed);
        Some(next)
    }

    fn next(&self) -> Option<usize> {
        let mut queue = self.queue.lock();
        queue.pop_front().filter(|_| !self.stop.is_cancelled())
    }
}

/// The order in which jobs start: on the wall clock the longest first, so that the last job to end is a short one.
fn longest_first(jobs: &[Job]) -> VecDeque<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    if jobs.first().is_some_and(|job| job.stage != StageKind::Sim) {
        let timeouts = Timeouts::short();
        order.sort_by_key(|index| std::cmp::Reverse(jobs[*index].plan.scenario.length(&timeouts)));
    }
    order.into()
}

async fn run_one(job: &Job, session: Option<&Session>, shared: &Shared) -> RunResult {
    match (session, job.stage) {
        (Some(session), _) => {
            let engine = ScenarioEngine::of(job);
            Box::pin(runner::timed(job, &engine.recording, session.run(job, &engine))).await
        }
        (None, StageKind::Sim) => run_simulated(job).await,
        (None, _) => Box::pin(runner::run_on_wall_clock(job, shared)).await,
    }
}

/// Runs a simulated job in its own process, because hash keys change within a process. Dropping the future ends the
/// process.
pub(super) async fn run_simulated(job: &Job) -> RunResult {
    match run_in_process(job).await {
        Ok(result) => result,
        Err(error) => {
            let mut result = RunResult::broken(job, error.to_string());
            runner::report(job, &mut result, None);
            result
        }
    }
}

/// Why the process of a simulation has no result.
#[derive(Debug, thiserror::Error)]
enum SimulationError {
    #[error("cannot start a process for the simulation: {0}")]
    Process(#[from] std::io::Error),
    #[error("the job has no JSON form: {0}")]
    Job(#[from] serde_json::Error),
    #[error("it runs away: the simulation took longer than {0} by the wall clock (limits.wallTime) and was killed")]
    RunsAway(GoDuration),
    #[error("the simulation ended without a result ({status}): {stderr}")]
    NoResult { status: ExitStatus, stderr: String },
}

async fn run_in_process(job: &Job) -> Result<RunResult, SimulationError> {
    let mut child = Command::new(this_program()?)
        .args(["perform", "--parent", &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let process = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let text = serde_json::to_vec(job)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&text).await?;
    }
    let Ok(output) = tokio::time::timeout(job.plan.limits.wall_time.0, child.wait_with_output()).await else {
        if let Some(process) = process {
            let _ = kill(process, Signal::SIGKILL);
        }
        return Err(SimulationError::RunsAway(job.plan.limits.wall_time));
    };
    let output = output?;
    serde_json::from_slice(&output.stdout).map_err(|_| SimulationError::NoResult {
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;
    use scenario::builder::wait;

    use super::*;

    #[test]
    fn the_longest_scenarios_start_first_on_the_wall_clock() {
        let job = |seconds, stage| {
            let scenario = Scenario::new("story", "").step(wait(Duration::from_secs(seconds)));
            Job::new(scenario, stage, 1)
        };
        let embedded = [1, 30, 2, 30].map(|seconds| job(seconds, StageKind::Embedded));
        assert_eq!(longest_first(&embedded), [1, 3, 2, 0]);
        let simulated = [1, 30].map(|seconds| job(seconds, StageKind::Sim));
        assert_eq!(
            longest_first(&simulated),
            [0, 1],
            "in virtual time the order does not matter"
        );
    }

    #[test]
    fn zero_jobs_are_refused_with_the_valid_numbers() {
        let refused = at_once(Some(0)).unwrap_err().to_string();
        assert!(refused.contains("--jobs 0") && refused.contains("from 1"), "{refused}");
    }
}
