//! The loop that works on machines, classes and Secrets: views to decisions to actions.
//!
//! What lives here: which key is worked on when, and how a plan is carried out. What must not: any
//! decision about a machine.

mod defects;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use mcm_api::Machine;
use mcm_core::machine::{
    Action, Answer, Claimed, EvictionOutcome, Failure, Plan, Reason, Settings, TokenView, View, decide,
};
use tokio_util::sync::CancellationToken;

use crate::act::{ActionExecutor, Done};
use crate::backoff::{Backoff, Trouble};
use crate::cache::Key;
use crate::created_vms::CreatedVms;
use crate::drain_view;
use crate::error::{brief, is_conflict, is_not_found, is_too_many_requests};
use crate::last_times::LastTimes;
use crate::overshoot::OvershootGuard;
use crate::queue::Queue;
use crate::readiness::Activity;
use crate::slots::{Permit, Slots};
use crate::steps::Names;
use crate::updates::Updates;
use crate::view::{Intents, answered_node, view};
use crate::world::{Trigger, Work, World};

/// How long work under way may take to end when the process is told to stop. The whole end takes less
/// than two seconds.
const GRACE: Duration = Duration::from_secs(1);
/// Decisions in one pass; a machine that needs more is looked at again after the short period.
const DECISIONS: usize = 16;
/// Passes of one key that may follow each other without a pause.
const PASSES: u32 = 32;

/// How long after a freeze machines are looked at.
const AFTER_FREEZE: Duration = Duration::from_secs(30);

/// All that a pass needs.
pub(crate) struct Controllers {
    pub(crate) executor: ActionExecutor,
    pub(crate) settings: Settings,
    pub(crate) intents: Intents,
    pub(crate) created_vms: CreatedVms,
    /// When conditions of Nodes were copied.
    pub(crate) copies: LastTimes,
    /// When calls of the cloud failed.
    pub(crate) failed_calls: LastTimes,
    pub(crate) slots: Slots<Work>,
    pub(crate) names: Names,
    pub(crate) overshoot_guard: OvershootGuard,
    pub(crate) deployment_settings: mcm_core::deployment::Settings,
    pub(crate) updates: Updates,
}

/// How a piece of work ended.
#[derive(Default)]
pub(crate) struct Outcome {
    /// When to look again at the latest; `None`: only when something changes, or when trouble says so; zero: at once.
    pub(crate) wake: Option<Duration>,
    /// What else is to be looked at.
    pub(crate) triggers: Vec<Trigger>,
    /// Why it is to be tried again: the longer after, the more often it did not succeed.
    pub(crate) trouble: Option<Trouble>,
}

impl Outcome {
    pub(crate) fn after(wake: Duration) -> Self {
        Self {
            wake: Some(wake),
            ..Self::default()
        }
    }

    /// The same, with a look after that time.
    pub(crate) fn again(self, wake: Duration) -> Self {
        Self {
            wake: Some(wake),
            ..self
        }
    }

    /// The same, and it did not succeed.
    pub(crate) fn troubled(self, trouble: Trouble) -> Self {
        Self {
            trouble: Some(trouble),
            ..self
        }
    }
}

/// What the loop knows of its keys.
#[derive(Default)]
struct Agenda {
    queue: Queue<Work>,
    hurry: BTreeSet<Work>,
    /// Passes in a row that asked to go on at once.
    restless: BTreeMap<Work, u32>,
    backoff: Backoff<Work>,
}

impl Controllers {
    /// Works until `cancel`, on as many keys at a time as there are slots; then lets what is under way end.
    /// Answers whether all of it did: if not, a call to the cloud may still have its effect later.
    pub(crate) async fn run(
        self: Arc<Self>,
        control: &Client,
        target: Option<&Client>,
        cancel: CancellationToken,
    ) -> bool {
        let controllers = self;
        let world = &controllers.executor.world;
        let clock = &controllers.executor.clock;
        let readiness = controllers.executor.metrics.readiness();
        let mut changes = world.triggers(control, target, clock.watch_seconds());
        let mut agenda = Agenda::default();
        let mut tasks: FuturesUnordered<BoxFuture<'_, (Work, Outcome)>> = FuturesUnordered::new();
        let mut announced = false;
        loop {
            if world.synced() {
                if !std::mem::replace(&mut announced, true) {
                    readiness.set(Activity::Working);
                    world.guard.filled();
                    agenda.take(world.first_triggers());
                    tracing::info!(namespace = world.namespace, "the caches are filled: working");
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
                Some(triggers) = changes.next() => agenda.take(triggers),
                () = world.guard.thawed() => agenda.after_freeze(world, clock.now()),
                Some((work, outcome)) = tasks.next() => {
                    agenda.ended(work, outcome, clock.now(), &controllers.settings);
                    agenda.take(world.own_triggers());
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
                tracing::warn!("some work did not end in time; the next process goes on from it");
                false
            }
        }
    }

    async fn work(&self, work: &Work, hurry: bool) -> Outcome {
        match work {
            Work::Machine(key) if defect!(DrainKeepsDeletionWorker | DrainKeepsWorker) => {
                self.machine_to_its_end(key, hurry).await
            }
            Work::Machine(key) => self.machine(key, hurry).await,
            Work::Class(key) => self.class(key).await,
            Work::Secret(key) => self.secret(key).await,
            Work::Set(key) => Box::pin(self.set(key)).await,
            Work::Deployment(key) => Box::pin(self.deployment(key)).await,
            Work::Overshoot => Box::pin(self.overshoot(hurry)).await,
        }
    }

    /// One pass over a machine: decisions and their actions, until there is nothing more to do now.
    async fn machine(&self, key: &Key, hurry: bool) -> Outcome {
        let mut pass = Pass {
            hurry,
            ..Pass::default()
        };
        for _ in 0..DECISIONS {
            let Some(machine) = self.executor.world.machines.get(key) else {
                self.created_vms.forget(key);
                self.copies.forget(key);
                self.failed_calls.forget(key);
                self.executor.world.drains.forget(key);
                return Outcome::default();
            };
            if self.executor.guard.is_frozen() {
                // What is seen may be old. Everything is looked at again afterwards.
                return Outcome::default();
            }
            let machine = if defect!(CreationWrittenOverOldCopy) {
                defects::copy_from_before(key, machine, pass.answers.last())
            } else {
                machine
            };
            let view = self.view(&machine, &pass);
            let plan = decide(&view, &self.settings, self.executor.clock.now());
            log(key, &plan);
            let mut triggers = self.needs(&plan.reason);
            let expiry = plan.expiry;
            if defect!(DeletionWakesItsClass) {
                triggers.extend(self.wakes_its_class(&machine));
            }
            match self.carry_out(plan, view, &mut pass).await {
                Next::Decide => {}
                Next::Wake(wake) => {
                    return Outcome {
                        wake: wake.into_iter().chain(expiry).min(),
                        triggers,
                        trouble: None,
                    };
                }
                Next::Trouble(trouble) => {
                    return Outcome {
                        wake: expiry,
                        triggers,
                        trouble: Some(trouble),
                    };
                }
            }
        }
        tracing::warn!(machine = %key, "the machine needs very many decisions; going on later");
        Outcome::after(self.settings.retry.short)
    }

    /// What a machine waits for without any change that would bring it about.
    fn needs(&self, reason: &Reason) -> Vec<Trigger> {
        let Reason::ClassWithoutFinalizer(class) = reason else {
            return Vec::new();
        };
        let work = Work::Class(Key::new(&self.executor.world.namespace, class));
        vec![Trigger { work, hurry: false }]
    }

    fn view(&self, machine: &Machine, pass: &Pass) -> View {
        let world = &self.executor.world;
        let mut seen = view(world, &self.intents, machine.clone());
        if let (Some(pods), Some(target)) = (&pass.pods, &world.target) {
            drain_view::listed(&mut seen, target, pods);
        }
        View {
            answered_node: answered_node(world, &pass.answers),
            answers: pass.answers.clone(),
            bootstrap_token: pass.token.clone(),
            claim: pass.claim,
            hurry: pass.hurry,
            failure: pass.failure.clone(),
            made: self.created_vms.unrecorded(machine),
            cannot_update: self.updates.is_missing(machine, world),
            conditions_copied: self.copies.last(&Key::of(machine)),
            call_failed: self.failed_calls.last(&Key::of(machine)),
            ..seen
        }
    }

    async fn carry_out(&self, plan: Plan, mut view: View, pass: &mut Pass) -> Next {
        pass.failure = None;
        let key = Key::of(&view.machine);
        if let Some(status) = &plan.status {
            // Before the first await: a sibling that is decided on meanwhile must know.
            self.intents.set(key.clone(), status.clone());
        }
        if let Some(memory) = &plan.drain {
            self.executor.world.drains.keep(&view.machine, memory.clone());
        }
        let next = Box::pin(self.perform_all(plan, &mut view, pass)).await;
        self.intents.clear(&key);
        next
    }

    async fn perform_all(&self, plan: Plan, view: &mut View, pass: &mut Pass) -> Next {
        let mut refused = false;
        let idle = plan.actions.is_empty() && plan.status.is_none() && pass.answers.is_empty();
        for action in plan.actions {
            if !self.may_act() {
                return Next::Wake(Some(self.settings.retry.short));
            }
            if let Action::Call(call) = &action
                && pass.permit.is_none()
            {
                let provider = call.class.provider.as_deref().unwrap_or_default();
                pass.permit = self.slots.enter(provider, Work::Machine(Key::of(&view.machine)));
                if pass.permit.is_none() {
                    return Next::Wake(None);
                }
            }
            let performed = if defect!(CreationAndDeletionAtOnce) {
                match self.perform_unless_deleted(&action, view).await {
                    Some(performed) => performed,
                    None => return Next::Wake(Some(Duration::ZERO)),
                }
            } else {
                self.executor.perform(&action, view).await
            };
            refused |= self.note_attempt(&action, view, &performed);
            match performed {
                Ok(Done::Nothing) => {}
                Ok(Done::Answer(answer)) => {
                    self.remember(&view.machine, &answer);
                    pass.answers.push(answer);
                    return Next::Decide;
                }
                Ok(Done::Claim(claim)) => {
                    pass.claim = Some(claim);
                    return Next::Decide;
                }
                Ok(Done::Pods(pods)) => {
                    pass.pods = Some(pods);
                    return Next::Decide;
                }
                Ok(Done::Token(secret)) => {
                    pass.token = TokenView::Present(secret);
                    return Next::Decide;
                }
                Err(error) if action.may_fail() => {
                    tracing::debug!(
                        error = brief(&error),
                        "an action failed; the rest does not depend on it"
                    );
                }
                Err(error) => {
                    pass.failure = Some(failure(action, &error));
                    return Next::Decide;
                }
            }
        }
        if let Some(status) = plan.status {
            if !self.may_act() {
                return Next::Wake(Some(self.settings.retry.short));
            }
            if let Err(error) = self.executor.write_status(&view.machine, &status).await {
                tracing::info!(machine = %Key::of(&view.machine), error = brief(&error), "the status was not written");
                if defect!(CreationWrittenOverOldCopy) {
                    return Next::Wake(None);
                }
                return Next::Trouble(Trouble::of(is_conflict(&error)));
            }
            if plan.reason == Reason::ConditionsChanged {
                self.copies.note(Key::of(&view.machine), self.executor.clock.now());
            }
        }
        if plan.after_failure {
            let conflict = view.failure.as_ref().is_some_and(|failure| failure.conflict);
            return Next::Trouble(Trouble::of(conflict));
        }
        match plan.wake {
            // What it means is decided at once.
            _ if refused => Next::Wake(Some(Duration::ZERO)),
            Some(wake) if wake.is_zero() && idle => Next::Wake(Some(self.settings.retry.short)),
            wake => Next::Wake(wake),
        }
    }
}

impl Controllers {
    /// Whether this process still leads, asked before each effect.
    fn may_act(&self) -> bool {
        if defect!(LeadershipCheckedOncePerPass) {
            return true;
        }
        self.executor.may_act()
    }

    /// Remembers what came of asking a pod to go; whether it is not going.
    fn note_attempt(&self, action: &Action, view: &View, performed: &kube::Result<Done>) -> bool {
        let (Action::EvictPod { uid, .. } | Action::DeletePod { uid, .. }) = action else {
            return false;
        };
        let outcome = match performed {
            Ok(_) => EvictionOutcome::Accepted,
            Err(error) if is_too_many_requests(error) => EvictionOutcome::Refused,
            Err(error) => EvictionOutcome::Failed(brief(error)),
        };
        let going = outcome == EvictionOutcome::Accepted;
        let drains = &self.executor.world.drains;
        drains.attempted(&Key::of(&view.machine), uid, self.executor.clock.now(), outcome);
        !going
    }

    /// A VM that was made is known from here on, whatever becomes of its record, and so is when a call failed.
    fn remember(&self, machine: &Machine, answer: &Answer) {
        if defect!(UnwrittenProviderIdForgotten) {
            return;
        }
        if answer.is_failure() {
            self.failed_calls.note(Key::of(machine), self.executor.clock.now());
        }
        match answer {
            Answer::Create(Ok(vm)) => self.created_vms.remember(machine, vm),
            Answer::Update { result, .. } => {
                self.updates
                    .answered(machine, &self.executor.world, result.as_ref().err())
            }
            _ => {}
        }
    }
}

/// What one pass has learnt beside the caches.
#[derive(Default)]
struct Pass {
    answers: Vec<Answer>,
    token: TokenView,
    failure: Option<Failure>,
    /// The pods on the machine's Node, where they were asked for.
    pods: Option<Vec<Pod>>,
    /// What became of a claim in the owner's list of preserved machines.
    claim: Option<Claimed>,
    hurry: bool,
    /// To call the driver, from the first call to the end of the pass.
    permit: Option<Permit<Work>>,
}

enum Next {
    Decide,
    Wake(Option<Duration>),
    Trouble(Trouble),
}

fn failure(action: Action, error: &kube::Error) -> Failure {
    Failure {
        action,
        conflict: is_conflict(error),
        not_found: is_not_found(error),
        message: brief(error),
    }
}

fn log(key: &Key, plan: &Plan) {
    let quiet = plan.actions.is_empty() && plan.status.is_none();
    let kind = || plan.reason.name();
    match &plan.reason {
        Reason::ActionFailed(_) => tracing::info!(machine = %key, kind = kind(), reason = %plan.reason),
        reason if quiet => tracing::debug!(machine = %key, kind = kind(), %reason),
        reason => tracing::info!(machine = %key, kind = kind(), %reason),
    }
}

impl Agenda {
    fn take(&mut self, triggers: Vec<Trigger>) {
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

    fn ended(&mut self, work: Work, outcome: Outcome, now: Timestamp, settings: &Settings) {
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
    fn after_freeze(&mut self, world: &World, now: Timestamp) {
        for machine in world.machines.all() {
            self.later(Work::Machine(Key::of(&*machine)), AFTER_FREEZE, now);
        }
    }

    fn later(&mut self, work: Work, wake: Duration, now: Timestamp) {
        self.queue.add_at(work, now.checked_add(wake).unwrap_or(Timestamp::MAX));
    }
}

#[cfg(test)]
mod tests;
