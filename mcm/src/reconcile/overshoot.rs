//! One pass of the overshoot guard over all sets: view, decisions and steps.

use std::time::Duration;

use jiff::Timestamp;
use mcm_core::overshoot::{Settings, Subject, View, decide};
use mcm_core::steps::Plan;
use parking_lot::Mutex;

use super::{Controllers, DECISIONS, Outcome, log_steps};
use crate::cache::Key;
use crate::execute::{Ended, Owner};
use crate::memory::RetryCause;

/// The guard's settings, and the time of its last periodic check.
#[derive(Debug)]
pub(crate) struct OvershootGuard {
    settings: Settings,
    last: Mutex<Option<Timestamp>>,
}

impl OvershootGuard {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            last: Mutex::new(None),
        }
    }

    /// The time until the next periodic check; if it is zero, the check is due and the period restarts.
    fn time_left(&self, now: Timestamp) -> Duration {
        let mut last = self.last.lock();
        let passed = last.map(|last| Duration::try_from(now.duration_since(last)).unwrap_or_default());
        let left = passed.map_or(Duration::ZERO, |passed| self.settings.period.saturating_sub(passed));
        if left.is_zero() {
            *last = Some(now);
        }
        left
    }
}

impl Controllers {
    /// Checks all sets. It freezes sets only in a periodic check, or after the creation of a machine.
    pub(crate) async fn overshoot(&self, machine_created: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let left = self.overshoot_guard.time_left(self.executor.clock.now());
        let state = &self.executor.state;
        for decision in 0..DECISIONS {
            let view = View {
                sets: state.sets_of_known_size(),
                deployments: state.deployments.all(),
                machines: state.machines.all(),
                // A set that this pass unfreezes gets time to delete its surplus machines.
                may_freeze: decision == 0 && (machine_created || left.is_zero()),
            };
            outcome.machines = view.machines.len();
            let decisions = decide(&view, self.overshoot_guard.settings, self.executor.clock.now());
            if decisions.is_empty() {
                let wake = if left.is_zero() {
                    self.overshoot_guard.settings.period
                } else {
                    left
                };
                return outcome.again(wake);
            }
            let mut cause = None;
            for (subject, plan) in decisions {
                let ended = match &subject {
                    Subject::Set(set) => {
                        let key = Key::of(&**set);
                        let _pending = state.pending_set_writes.begin(&key);
                        self.overshoot_step(&key, Owner::Set(set), plan, &mut outcome).await
                    }
                    Subject::Deployment(one) => {
                        self.overshoot_step(&Key::of(&**one), Owner::Deployment(one), plan, &mut outcome)
                            .await
                    }
                };
                // A failed write does not affect the other objects.
                match ended {
                    Ended::NotLeading => return outcome.again(self.settings.retry.short),
                    Ended::NotCreated(_) | Ended::Failed(_) => cause = Some(RetryCause::Failure),
                    Ended::Conflict => cause = cause.or(Some(RetryCause::Conflict)),
                    Ended::Partly(other) => cause = cause.or(Some(other)),
                    Ended::Done(_) | Ended::Taken(_) => {}
                }
            }
            if let Some(cause) = cause {
                return outcome.retry_after(cause);
            }
        }
        outcome.again(self.settings.retry.short)
    }

    async fn overshoot_step(
        &self,
        key: &Key,
        owner: Owner<'_>,
        plan: Plan<mcm_core::overshoot::Reason>,
        outcome: &mut Outcome,
    ) -> Ended {
        log_steps("overshoot", key, &plan, mcm_core::overshoot::Reason::name);
        self.executor
            .perform_steps(&self.machine_names, owner, plan, &mut outcome.triggers)
            .await
    }
}
