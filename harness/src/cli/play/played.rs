//! The run that the page shows: its record so far and its complete record.

use ::record::{Recorder, RunRecord};
use dashboard::{Arrival, Executor, PerformError, PlayedRun, Player};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use scenario::Step;
use scenario::job::Job;
use scenario::observation::Observation;
use sim::Trace;
use std::sync::Arc;

use crate::engine::follower::Follower;
use crate::engine::recording::Recording;
use crate::report::record;

/// What is known of the run.
pub(super) struct Played {
    job: Job,
    plan: String,
    recording: Recording,
    trace: Mutex<Option<Trace>>,
    complete: Mutex<Option<RunRecord>>,
}

impl Played {
    pub(super) fn new(job: Job, plan: String, recording: Recording) -> Self {
        Self {
            job,
            plan,
            recording,
            trace: Mutex::default(),
            complete: Mutex::default(),
        }
    }

    /// The trace of the run; `None`: its scenario has not started.
    pub(super) fn trace(&self) -> Option<Trace> {
        self.trace.lock().clone()
    }

    /// The virtual time at the end of a record.
    pub(super) fn end_of(record: &RunRecord) -> Timestamp {
        let lasted = i64::try_from(record.meta.lasted.0).unwrap_or(i64::MAX);
        let end = record.meta.started.saturating_add(SignedDuration::from_micros(lasted));
        end.unwrap_or(Timestamp::MAX)
    }

    /// The page shows this record from now on.
    pub(super) fn complete(&self, record: RunRecord) {
        *self.complete.lock() = Some(record);
    }
}

impl PlayedRun for Played {
    fn record(&self, now: Timestamp) -> RunRecord {
        if let Some(record) = self.complete.lock().clone() {
            return record;
        }
        let trace = self.trace();
        let recorder = self.recording.copy().unwrap_or_else(|| Recorder::new(now));
        record::so_far(&self.job, recorder, trace.as_ref(), now, self.plan.clone())
    }

    fn plan(&self) -> String {
        self.plan.clone()
    }
}

/// Passes what happens in the run to the page, and holds up the run as the page asks.
#[derive(Debug)]
pub(super) struct Follows {
    player: Player,
    played: Arc<Played>,
}

impl Follows {
    pub(super) fn new(player: Player, played: Arc<Played>) -> Self {
        Self { player, played }
    }
}

impl std::fmt::Debug for Played {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Played").finish_non_exhaustive()
    }
}

impl Follower for Follows {
    fn begin(&self, at: Timestamp, trace: Option<&Trace>) {
        *self.played.trace.lock() = trace.cloned();
        self.player.begin(at);
    }

    fn wait(&self, arrival: Arrival) {
        self.player.wait(arrival);
    }

    fn observe(&self, observation: &Observation) {
        self.player.observe(observation);
    }
}

/// The page has no buttons for faults.
#[derive(Debug)]
pub(super) struct NoFaults;

impl Executor for NoFaults {
    fn perform(&self, step: Step, _: Option<String>) -> BoxFuture<'static, Result<(), PerformError>> {
        let refused = PerformError::Unsupported {
            what: step.description(),
            reason: "a simulated run has the faults of its plan",
        };
        async move { Err(refused) }.boxed()
    }
}
