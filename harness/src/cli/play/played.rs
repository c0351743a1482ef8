//! The run that the page shows: its record so far and its complete record. A run with more faults takes its place.

use std::ops::ControlFlow;
use std::sync::Arc;

use ::record::{Recorder, RunRecord};
use dashboard::{Arrival, BeginError, Change, Executor, PerformError, PlayedRun, RunHandle};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use scenario::Step;
use scenario::job::Job;
use scenario::observation::Observation;
use scenario::plan::{Disturbance, TimedStep};
use sim::Trace;
use tokio::sync::mpsc::UnboundedSender;

use crate::engine::ScenarioEngine;
use crate::engine::follower::Follower;
use crate::report::record;

/// What is known of one run.
pub(super) struct OneRun {
    pub(super) job: Job,
    plan: String,
    engine: ScenarioEngine,
    trace: Mutex<Option<Trace>>,
    complete: Mutex<Option<RunRecord>>,
}

impl OneRun {
    pub(super) fn new(job: Job, plan: String) -> Self {
        Self {
            engine: ScenarioEngine::of(&job),
            job,
            plan,
            trace: Mutex::default(),
            complete: Mutex::default(),
        }
    }

    /// The engine that performs it, followed by the player.
    pub(super) fn engine(self: &Arc<Self>, handle: RunHandle) -> ScenarioEngine {
        let follows = Follows {
            handle,
            run: Arc::clone(self),
        };
        self.engine.followed_by(Arc::new(follows))
    }

    /// The trace of the run; `None`: its scenario has not started.
    pub(super) fn trace(&self) -> Option<Trace> {
        self.trace.lock().clone()
    }

    /// The page shows this record from now on.
    pub(super) fn complete(&self, record: RunRecord) {
        *self.complete.lock() = Some(record);
    }

    fn record(&self, now: Timestamp) -> RunRecord {
        if let Some(record) = self.complete.lock().clone() {
            return record;
        }
        let trace = self.trace();
        let recorder = self.engine.recording.copy().unwrap_or_else(|| Recorder::new(now));
        record::so_far(&self.job, recorder, trace.as_ref(), now, self.plan.clone())
    }
}

/// The virtual time at the end of a record.
pub(super) fn end_of(record: &RunRecord) -> Timestamp {
    let lasted = i64::try_from(record.meta.lasted.0).unwrap_or(i64::MAX);
    let end = record.meta.started.saturating_add(SignedDuration::from_micros(lasted));
    end.unwrap_or(Timestamp::MAX)
}

/// The current run.
pub(super) struct Played {
    current: Mutex<Arc<OneRun>>,
    /// Receives the runs that take the place of others.
    next: UnboundedSender<(Arc<OneRun>, RunHandle)>,
}

impl Played {
    pub(super) fn new(first: Arc<OneRun>, next: UnboundedSender<(Arc<OneRun>, RunHandle)>) -> Self {
        Self {
            current: Mutex::new(first),
            next,
        }
    }

    fn current(&self) -> Arc<OneRun> {
        Arc::clone(&self.current.lock())
    }
}

impl PlayedRun for Played {
    fn record(&self, now: Timestamp) -> RunRecord {
        self.current().record(now)
    }

    fn plan(&self) -> String {
        self.current().plan.clone()
    }

    fn begin_again(&self, change: Change, handle: RunHandle) -> Result<(), BeginError> {
        let mut current = self.current.lock();
        let mut job = current.job.clone();
        apply(change, &mut job.plan.disturbances);
        // Whether a fault of a user hits something is not judged.
        job.plan.may_miss = true;
        job.plan
            .validate()
            .map_err(|(field, problem)| BeginError::Plan { field, problem })?;
        let plan = record::plan(&job).map_err(|error| BeginError::Yaml(error.to_string()))?;
        let next = Arc::new(OneRun::new(job, plan));
        self.next
            .send((Arc::clone(&next), handle))
            .map_err(|_| BeginError::Ended)?;
        *current = next;
        Ok(())
    }
}

/// Changes the faults of a plan.
fn apply(change: Change, disturbances: &mut Vec<Disturbance>) {
    let of = |step: TimedStep| Disturbance::Step(Box::new(step));
    for removed in change.remove.into_iter().map(of) {
        // The user's plan may contain the same step: the one of the page is behind it.
        if let Some(index) = disturbances.iter().rposition(|disturbance| *disturbance == removed) {
            disturbances.remove(index);
        }
    }
    disturbances.extend(change.add.into_iter().map(of));
}

/// Passes what happens in a run to the page, and holds up the run as the page asks.
#[derive(Debug)]
struct Follows {
    handle: RunHandle,
    run: Arc<OneRun>,
}

impl std::fmt::Debug for OneRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneRun").finish_non_exhaustive()
    }
}

impl Follower for Follows {
    fn begin(&self, at: Timestamp, trace: Option<&Trace>) {
        *self.run.trace.lock() = trace.cloned();
        self.handle.begin(at);
    }

    fn wait(&self, arrival: Arrival) -> ControlFlow<()> {
        self.handle.wait(arrival)
    }

    fn observe(&self, observation: &Observation) {
        self.handle.observe(observation);
    }
}

/// Faults of a simulated world are part of its plan: no step is performed in any other way.
#[derive(Debug)]
pub(super) struct InThePlan;

impl Executor for InThePlan {
    fn perform(&self, step: Step, _: Option<String>) -> BoxFuture<'static, Result<(), PerformError>> {
        let refused = PerformError::Unsupported {
            what: step.description(),
            reason: "a simulated run has the faults of its plan",
        };
        async move { Err(refused) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use scenario::builder;

    use super::*;

    fn step(seconds: u64, rule: &str) -> TimedStep {
        TimedStep {
            at: std::time::Duration::from_secs(seconds).into(),
            after_events: None,
            step: builder::lift(rule),
        }
    }

    #[test]
    fn an_earlier_end_of_a_fault_replaces_the_later_one() {
        let of = |step| Disturbance::Step(Box::new(step));
        let mut planned = vec![of(step(60, "a")), of(step(60, "b")), of(step(60, "a"))];
        let change = Change {
            add: vec![step(30, "a")],
            remove: vec![step(60, "a"), step(70, "b")],
        };
        apply(change, &mut planned);
        assert_eq!(planned, [of(step(60, "a")), of(step(60, "b")), of(step(30, "a"))]);
    }
}
