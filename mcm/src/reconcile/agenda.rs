//! The schedule of work: the queue, and the waits before retries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_core::machine::Settings;

use super::pace::Pace;
use super::queue::Queue;
use super::{Outcome, defects};
use crate::cache::Key;
use crate::memory::{Backoff, RetryCause};
use crate::view::{ClusterState, Trigger, Work};

/// The maximum number of consecutive passes of one key without a pause.
const MAX_IMMEDIATE_PASSES: u32 = 32;
/// How long after a freeze machines are reconciled.
const AFTER_FREEZE: Duration = Duration::from_secs(30);

/// The state of the work loop.
#[derive(Default)]
pub(super) struct Agenda {
    pub(super) queue: Queue<Work>,
    pub(super) hurry: BTreeSet<Work>,
    /// The number of consecutive passes that requested an immediate requeue.
    immediate_passes: BTreeMap<Work, u32>,
    backoff: Backoff<Work>,
    pace: Pace<Work>,
}

impl Agenda {
    pub(super) fn take(&mut self, triggers: Vec<Trigger>, now: Timestamp) {
        for Trigger { work, hurry } in triggers {
            if defect!(AddedFinalizerIsError) && self.backoff.times(&work) > defects::TRIES && !hurry {
                continue;
            }
            if hurry {
                self.hurry.insert(work.clone());
            }
            match self.pace.earliest(&work, now) {
                Some(earliest) => self.queue.add_at(work, earliest),
                None => self.queue.add(work),
            }
        }
    }

    pub(super) fn ended(&mut self, work: Work, outcome: Outcome, now: Timestamp, settings: &Settings) {
        match outcome.pause {
            Some(pause) => self.pace.pause(work.clone(), pause, now),
            None => self.pace.passed(work.clone(), outcome.machines, now),
        }
        self.queue.done(&work, self.pace.earliest(&work, now));
        self.take(outcome.triggers, now);
        if let Some(cause) = outcome.retry {
            let wait = self.backoff.failed(work.clone(), cause, &settings.retry);
            if defects::drops(&work, cause, self.backoff.times(&work)) {
                return;
            }
            if defect!(ConflictRepeatedAtOnce) && cause == RetryCause::Conflict {
                self.backoff.succeeded(&work);
            }
            let wait = outcome.wake.map_or(wait, |wake| wake.min(wait));
            return self.requeue_after(work, wait, now);
        }
        self.backoff.succeeded(&work);
        match outcome.wake {
            Some(Duration::ZERO) => {
                let passes = self.immediate_passes.entry(work.clone()).or_default();
                *passes += 1;
                let pause = if *passes < MAX_IMMEDIATE_PASSES {
                    Duration::ZERO
                } else {
                    settings.retry.short
                };
                self.requeue_after(work, pause, now);
            }
            Some(wake) => {
                self.immediate_passes.remove(&work);
                self.requeue_after(work, wake, now);
            }
            None => {
                self.immediate_passes.remove(&work);
            }
        }
    }

    /// Requeues all machines after a delay in which the caches catch up.
    pub(super) fn after_freeze(&mut self, state: &ClusterState, now: Timestamp) {
        for machine in state.machines.all() {
            self.requeue_after(Work::Machine(Key::of(&*machine)), AFTER_FREEZE, now);
        }
    }

    fn requeue_after(&mut self, work: Work, wake: Duration, now: Timestamp) {
        let when = now.checked_add(wake).unwrap_or(Timestamp::MAX);
        let when = self
            .pace
            .earliest(&work, now)
            .map_or(when, |earliest| earliest.max(when));
        self.queue.add_at(work, when);
    }
}
