//! The controllers of machines, sets, deployments, classes and Secrets: they schedule keys, and pass views to decisions
//! and decisions to the action executor.
//!
//! The module must contain neither decisions about objects nor the implementation of actions.

mod agenda;
mod class_finalizers;
mod damaged;
mod defects;
mod deployment;
mod health_check;
mod machine;
mod overshoot;
mod pace;
mod queue;
mod set;
mod unchecked_machines;
mod worker_slots;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use kube::Client;
use mcm_core::machine::Settings;
use mcm_core::steps::{OwnerAction, Plan};
use tokio_util::sync::CancellationToken;

use self::agenda::Agenda;
pub(crate) use self::damaged::ReportedDamage;
pub(crate) use self::health_check::settings as health_check_settings;
pub(crate) use self::overshoot::OvershootGuard;
pub(crate) use self::worker_slots::WorkerSlots;
use crate::cache::Key;
use crate::execute::{ActionExecutor, Resources};
use crate::memory::{CreatedVms, LastTimes, MachineNames, PendingStatuses, RetryCause, UpdateSupport};
use crate::metrics::Activity;
use crate::view::{Trigger, Work};

/// How long pending work may take when the process is stopping. The whole stop takes less than two
/// seconds.
const GRACE: Duration = Duration::from_secs(1);
/// The maximum number of machines that a pass of health checks writes, or whose Nodes it reads, at the same time.
const MACHINES_AT_ONCE: usize = 32;
/// The maximum number of decisions in one pass of a set or deployment; one that needs more is requeued.
const DECISIONS: usize = 16;

/// The dependencies and state of the controllers.
pub(crate) struct Controllers {
    pub(crate) executor: ActionExecutor,
    pub(crate) settings: Settings,
    pub(crate) pending_statuses: PendingStatuses,
    pub(crate) created_vms: CreatedVms,
    /// The last copies of Nodes' conditions.
    pub(crate) copies: LastTimes,
    /// The last failures of cloud calls.
    pub(crate) failed_calls: LastTimes,
    /// When a preserved machine's driver was last asked whether its VM runs, and did not report it as stopped.
    pub(crate) power_questions: LastTimes,
    pub(crate) slots: WorkerSlots<Work>,
    pub(crate) machine_names: MachineNames,
    pub(crate) overshoot_guard: OvershootGuard,
    pub(crate) deployment_settings: mcm_core::deployment::Settings,
    pub(crate) update_support: UpdateSupport,
    pub(crate) reported_damage: ReportedDamage,
    /// An outage that is shorter does not count for health checks.
    pub(crate) tolerated_outage: Duration,
    pub(crate) health_check_settings: mcm_core::health_check::Settings,
    /// The resources of remediation requests and their templates.
    pub(crate) resources: Resources,
}

/// The result of a pass.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The number of machines that the pass evaluated, if it was one of an owner.
    pub(crate) machines: usize,
    /// The latest time of the next pass; `None`: after a change, or a retry because of `retry`; zero: at once.
    pub(crate) wake: Option<Duration>,
    /// Other work that results from this pass.
    pub(crate) triggers: Vec<Trigger>,
    /// Why the work must be retried, with a backoff while it fails.
    pub(crate) retry: Option<RetryCause>,
    /// How long the next pass waits at least, whatever triggers it; `None`: it depends on `machines`.
    pub(crate) pause: Option<Duration>,
}

impl Outcome {
    pub(crate) fn after(wake: Duration) -> Self {
        Self {
            wake: Some(wake),
            ..Self::default()
        }
    }

    /// Sets when to requeue the work.
    pub(crate) fn again(self, wake: Duration) -> Self {
        Self {
            wake: Some(wake),
            ..self
        }
    }

    /// Sets why the work must be retried.
    pub(crate) fn retry_after(self, cause: RetryCause) -> Self {
        Self {
            retry: Some(cause),
            ..self
        }
    }
}

impl Controllers {
    /// Works until `cancel`, on as many keys at a time as there are slots; then waits for pending work.
    /// Returns whether all of it ended: if not, a cloud call may still have an effect later.
    pub(crate) async fn run(
        self: Arc<Self>,
        control: &Client,
        target: Option<&Client>,
        cancel: CancellationToken,
    ) -> bool {
        let controllers = self;
        let state = &controllers.executor.state;
        let clock = &controllers.executor.clock;
        let readiness = controllers.executor.metrics.readiness();
        let mut changes = state.triggers(control, target, clock.watch_seconds());
        let mut agenda = Agenda::default();
        let mut tasks: FuturesUnordered<BoxFuture<'_, (Work, Outcome)>> = FuturesUnordered::new();
        let mut announced = false;
        loop {
            if announced || state.synced() {
                if !std::mem::replace(&mut announced, true) {
                    readiness.set(Activity::Working);
                    state.guard.filled();
                    agenda.take(state.first_triggers(), clock.now());
                    tracing::info!(namespace = state.namespace, "the caches are filled: working");
                }
                for work in controllers.slots.unparked() {
                    agenda.queue.add(work);
                }
                while controllers.slots.is_free(tasks.len())
                    && let Some(work) = agenda.queue.pop(clock.now())
                {
                    let hurry = agenda.hurry.remove(&work);
                    let controllers = Arc::clone(&controllers);
                    tasks.push(async move { (work.clone(), controllers.work(&work, hurry).await) }.boxed());
                }
            }
            let deadline = agenda
                .queue
                .next_deadline()
                .filter(|_| announced && controllers.slots.is_free(tasks.len()));
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some(triggers) = changes.next() => {
                    controllers.observe_connection();
                    agenda.take(triggers, clock.now());
                }
                () = state.connection.changed() => agenda.take(state.health_check_triggers(), clock.now()),
                () = state.guard.thawed() => agenda.after_freeze(state, clock.now()),
                Some((work, outcome)) = tasks.next() => {
                    agenda.ended(work, outcome, clock.now(), &controllers.settings);
                    agenda.take(state.own_triggers(), clock.now());
                }
                () = clock.sleep_until(deadline.unwrap_or(Timestamp::MAX)), if deadline.is_some() => {}
            }
        }
        readiness.set(Activity::Stopping);
        tracing::info!(under_way = tasks.len(), "stopping");
        let mut rest = pin!(tasks.collect::<Vec<_>>());
        tokio::select! {
            biased;
            _ = &mut rest => true,
            () = clock.sleep(GRACE) => {
                tracing::warn!("some work did not end in time; the next process continues it");
                false
            }
        }
    }

    /// Compares the connection to the clusters with the last observation, for health checks.
    pub(crate) fn observe_connection(&self) {
        let state = &self.executor.state;
        if state.enabled.health_checks {
            let now = self.executor.clock.now();
            state
                .connection
                .observe(state.guard.health(), self.tolerated_outage, now);
        }
    }

    async fn work(&self, work: &Work, hurry: bool) -> Outcome {
        if let Some(outcome) = self.damaged(work).await {
            return outcome;
        }
        match work {
            Work::Machine(key) if defect!(DrainKeepsDeletionWorker | DrainKeepsWorker) => {
                self.machine_to_its_end(key, hurry).await
            }
            Work::Machine(key) => self.machine(key, hurry).await,
            Work::Class(key) => self.class(key).await,
            Work::Secret(key) => self.secret(key).await,
            Work::Set(key) => Box::pin(self.set(key)).await,
            Work::Deployment(key) => Box::pin(self.deployment(key)).await,
            Work::HealthCheck(key) => self.health_check(key).await,
            Work::UncheckedMachines => Box::pin(self.unchecked_machines()).await,
            Work::Overshoot => Box::pin(self.overshoot(hurry)).await,
        }
    }
}

/// Logs the steps of a plan, with one line for consecutive steps with the same reason.
fn log_steps<R: std::fmt::Display>(what: &str, key: &Key, plan: &Plan<R>, name: impl Fn(&R) -> String) {
    let mut last = String::new();
    for step in plan
        .steps
        .iter()
        .filter(|step| !matches!(step.action, OwnerAction::RecordEvent { .. }))
    {
        let text = step.reason.to_string();
        if text == last {
            continue;
        }
        let kind = name(&step.reason);
        if matches!(step.action, OwnerAction::WriteStatus { .. }) {
            tracing::debug!(what, object = %key, kind, reason = text);
        } else {
            tracing::info!(what, object = %key, kind, reason = text);
        }
        last = text;
    }
}
