//! What is to be worked on and when: the queue, and the waits before work is repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_core::machine::Settings;

use super::queue::Queue;
use super::{Outcome, defects};
use crate::cache::Key;
use crate::memory::{Backoff, Trouble};
use crate::view::{ClusterState, Trigger, Work};

/// Passes of one key that may follow each other without a pause.
const PASSES: u32 = 32;
/// How long after a freeze machines are looked at.
const AFTER_FREEZE: Duration = Duration::from_secs(30);

/// What the loop knows of its keys.
#[derive(Default)]
pub(super) struct Agenda {
    pub(super) queue: Queue<Work>,
    pub(super) hurry: BTreeSet<Work>,
    /// Passes in a row that asked to go on at once.
    restless: BTreeMap<Work, u32>,
    backoff: Backoff<Work>,
}

impl Agenda {
    pub(super) fn take(&mut self, triggers: Vec<Trigger>) {
        for Trigger { work, hurry } in triggers {
            if defect!(AddedFinalizerIsError) && self.backoff.times(&work) > defects::TRIES && !hurry {
                continue;
            }
            if hurry {
                self.hurry.insert(work.clone());
            }
            self.queue.add(work);
        }
    }

    pub(super) fn ended(&mut self, work: Work, outcome: Outcome, now: Timestamp, settings: &Settings) {
        self.queue.done(&work);
        self.take(outcome.triggers);
        if let Some(trouble) = outcome.trouble {
            let wait = self.backoff.failed(work.clone(), trouble, &settings.retry);
            if defects::drops(&work, trouble, self.backoff.times(&work)) {
                return;
            }
            if defect!(ConflictRepeatedAtOnce) && trouble == Trouble::Conflict {
                self.backoff.succeeded(&work);
            }
            let wait = outcome.wake.map_or(wait, |wake| wake.min(wait));
            return self.later(work, wait, now);
        }
        self.backoff.succeeded(&work);
        match outcome.wake {
            Some(Duration::ZERO) => {
                let passes = self.restless.entry(work.clone()).or_default();
                *passes += 1;
                let pause = if *passes < PASSES {
                    Duration::ZERO
                } else {
                    settings.retry.short
                };
                self.later(work, pause, now);
            }
            Some(wake) => {
                self.restless.remove(&work);
                self.later(work, wake, now);
            }
            None => {
                self.restless.remove(&work);
            }
        }
    }

    /// All machines, once the caches have had time to catch up.
    pub(super) fn after_freeze(&mut self, state: &ClusterState, now: Timestamp) {
        for machine in state.machines.all() {
            self.later(Work::Machine(Key::of(&*machine)), AFTER_FREEZE, now);
        }
    }

    fn later(&mut self, work: Work, wake: Duration, now: Timestamp) {
        self.queue.add_at(work, now.checked_add(wake).unwrap_or(Timestamp::MAX));
    }
}
