//! One pass of a machine: repeats view, decision and actions until no action remains.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use mcm_api::{Machine, MachineStatus};
use mcm_core::machine::{
    Action, Answer, Claimed, EvictionOutcome, Failure, Plan, Reason, TokenView, View, decide_ahead,
};

use super::worker_slots::Permit;
use super::{Controllers, Outcome, defects};
use crate::cache::Key;
use crate::error::{brief, is_conflict, is_not_found, is_too_many_requests};
use crate::execute::Done;
use crate::memory::{DeletionRequest, RetryCause};
use crate::view::{Trigger, Work, answered_node, must_wait_for_sibling, set_listed_pods, view};

/// The maximum number of decisions in one pass; a machine that needs more is requeued after the short retry period.
const DECISIONS: usize = 16;
/// The time between two looks at a write for another machine of the deployment, as upstream polls its cache.
const SIBLING_POLL: Duration = Duration::from_millis(100);

impl Controllers {
    /// Performs one pass of a machine.
    pub(super) async fn machine(&self, key: &Key, hurry: bool) -> Outcome {
        let mut pass = Pass {
            hurry,
            ..Pass::default()
        };
        for _ in 0..DECISIONS {
            let Some(machine) = self.executor.state.machines.get(key) else {
                self.created_vms.forget(key);
                self.copies.forget(key);
                self.failed_calls.forget(key);
                self.power_questions.forget(key);
                self.executor.state.drains.forget(key);
                return Outcome::default();
            };
            if self.executor.guard.is_frozen() {
                // The caches may be outdated. All machines are requeued after the freeze.
                return Outcome::default();
            }
            let machine = if defect!(CreationWrittenOverOldCopy) {
                defects::copy_from_before(key, machine, pass.answers.last())
            } else {
                machine
            };
            let view = self.view(&machine, &pass);
            let plan = decide_ahead(&view, &self.settings, self.executor.clock.now());
            if let Some(status) = &plan.status
                && must_wait_for_sibling(&self.executor.state, &self.pending_statuses, &view.machine, status)
            {
                tracing::debug!(machine = %key, "another machine of the deployment is about to be Failed");
                return Outcome::after(SIBLING_POLL);
            }
            log(key, &plan);
            let mut triggers = self.required_work(&plan.reason);
            let expiry = plan.expiry;
            if defect!(DeletionWakesItsClass) {
                triggers.extend(self.class_triggers(&machine));
            }
            match self.perform_plan(plan, view, &mut pass).await {
                Next::Decide => {}
                Next::Wake(wake) => {
                    return Outcome {
                        wake: wake.into_iter().chain(expiry).min(),
                        triggers,
                        ..Outcome::default()
                    };
                }
                Next::Retry(cause) => {
                    return Outcome {
                        wake: expiry,
                        triggers,
                        retry: Some(cause),
                        ..Outcome::default()
                    };
                }
            }
        }
        tracing::warn!(machine = %key, "the machine needs too many decisions; it is requeued");
        Outcome::after(self.settings.retry.short)
    }

    /// Work that a machine waits for and that no change of an object triggers.
    fn required_work(&self, reason: &Reason) -> Vec<Trigger> {
        let Reason::ClassWithoutFinalizer(class) = reason else {
            return Vec::new();
        };
        let work = Work::Class(Key::new(&self.executor.state.namespace, class));
        vec![Trigger { work, hurry: false }]
    }

    fn view(&self, machine: &Machine, pass: &Pass) -> View {
        let state = &self.executor.state;
        let mut cached = view(state, &self.pending_statuses, machine.clone());
        if let (Some(pods), Some(target)) = (&pass.pods, &state.target) {
            set_listed_pods(&mut cached, target, pods);
        }
        View {
            answered_node: answered_node(state, &pass.answers),
            answers: pass.answers.clone(),
            bootstrap_token: pass.token.clone(),
            claim: pass.claim,
            hurry: pass.hurry,
            failure: pass.failure.clone(),
            created_vm: self.created_vms.unfinished(machine),
            cannot_update: self.update_support.is_missing(&state.provider_of(machine)),
            conditions_copied: self.copies.last(&Key::of(machine)),
            call_failed: self.failed_calls.last(&Key::of(machine)),
            power_asked: self.power_questions.last(&Key::of(machine)),
            deletion_reason: state.requested_deletions.reason(machine),
            ..cached
        }
    }

    async fn perform_plan(&self, plan: Plan, mut view: View, pass: &mut Pass) -> Next {
        pass.failure = None;
        let key = Key::of(&view.machine);
        if let Some(status) = &plan.status {
            // Before the first await: a concurrent decision about a sibling must consider it.
            self.pending_statuses.set(key.clone(), status.clone());
        }
        if let Some(memory) = &plan.drain {
            self.executor.state.drains.keep(&view.machine, memory.clone());
        }
        let next = Box::pin(self.perform_all(plan, &mut view, pass)).await;
        self.pending_statuses.clear(&key);
        next
    }

    async fn perform_all(&self, plan: Plan, view: &mut View, pass: &mut Pass) -> Next {
        let mut refused = false;
        let idle = plan.actions.is_empty() && plan.status.is_none() && pass.answers.is_empty();
        let reason = plan.reason.to_string();
        let mut measured = Vec::new();
        for action in plan.actions {
            if !self.may_act() {
                return Next::Wake(Some(self.settings.retry.short));
            }
            if !self.has_permit(&action, view, pass) {
                return Next::Wake(None);
            }
            if let Action::Observe(metric) = action {
                measured.push(metric);
                continue;
            }
            let Some(performed) = self.perform_action(&action, view, &reason).await else {
                return Next::Wake(Some(Duration::ZERO));
            };
            refused |= self.note_attempt(&action, view, &performed);
            match performed {
                Ok(Done::Nothing) => {}
                Ok(done) => {
                    self.keep_result(done, &view.machine, pass);
                    return Next::Decide;
                }
                Err(error) if action.may_fail() => {
                    tracing::debug!(error = brief(&error), "an optional action failed");
                }
                Err(error) => {
                    pass.failure = Some(failure(action, &error));
                    return Next::Decide;
                }
            }
        }
        if let Some(status) = plan.status
            && let Err(next) = self.write_status(&view.machine, &status, &plan.reason).await
        {
            return next;
        }
        // Only what happened counts: a plan whose write fails is decided again.
        for metric in measured {
            self.executor
                .metrics
                .observe(&metric, &view.machine, view.class.as_deref());
        }
        if plan.after_failure {
            let conflict = view.failure.as_ref().is_some_and(|failure| failure.conflict);
            return Next::Retry(RetryCause::of(conflict));
        }
        match plan.wake {
            // Decide again at once.
            _ if refused => Next::Wake(Some(Duration::ZERO)),
            Some(wake) if wake.is_zero() && idle => Next::Wake(Some(self.settings.retry.short)),
            wake => Next::Wake(wake),
        }
    }

    /// Whether the action needs no driver, or the pass has a permit for driver calls.
    fn has_permit(&self, action: &Action, view: &View, pass: &mut Pass) -> bool {
        if pass.permit.is_none()
            && let Some(provider) = needed_driver(action, view)
        {
            pass.permit = self.slots.enter(&provider, Work::Machine(Key::of(&view.machine)));
            return pass.permit.is_some();
        }
        true
    }

    /// Performs an action; `None`: the machine was deleted meanwhile (only with a planted defect).
    async fn perform_action(&self, action: &Action, view: &mut View, reason: &str) -> Option<kube::Result<Done>> {
        let deletion = (*action == Action::DeleteMachine).then(|| self.request_deletion(&view.machine, reason));
        let performed = if defect!(CreationAndDeletionAtOnce) {
            self.perform_unless_deleted(action, view).await?
        } else {
            self.executor.perform(action, view).await
        };
        if let Some(deletion) = deletion {
            deletion.answered(performed.as_ref().err());
        }
        Some(performed)
    }

    /// Keeps the result of an action for the next decision of the pass.
    fn keep_result(&self, done: Done, machine: &Machine, pass: &mut Pass) {
        match done {
            Done::Nothing => {}
            Done::Answer(answer) => {
                self.remember(machine, &answer);
                pass.answers.push(answer);
            }
            Done::Claim(claim) => pass.claim = Some(claim),
            Done::Pods(pods) => pass.pods = Some(pods),
            Done::Token(secret) => pass.token = TokenView::Present(secret),
        }
    }

    /// Writes the status of a plan with that reason; the error is what follows if that is impossible.
    async fn write_status(&self, machine: &Machine, status: &MachineStatus, reason: &Reason) -> Result<(), Next> {
        if !self.may_act() {
            return Err(Next::Wake(Some(self.settings.retry.short)));
        }
        if let Err(error) = self.executor.write_status(machine, status).await {
            tracing::info!(machine = %Key::of(machine), error = brief(&error), "writing the status failed");
            if defect!(CreationWrittenOverOldCopy) {
                return Err(Next::Wake(None));
            }
            return Err(Next::Retry(RetryCause::of(is_conflict(&error))));
        }
        if *reason == Reason::ConditionsChanged {
            self.copies.note(Key::of(machine), self.executor.clock.now());
        }
        Ok(())
    }

    /// Whether this process may act; checked before each effect.
    fn may_act(&self) -> bool {
        if defect!(LeadershipCheckedOncePerPass) {
            return true;
        }
        self.executor.may_act()
    }

    fn request_deletion(&self, machine: &Machine, reason: &str) -> DeletionRequest<'_> {
        let deletions = &self.executor.state.requested_deletions;
        let uid = machine.metadata.uid.clone().unwrap_or_default();
        deletions.request(Key::of(machine), uid, reason.to_owned())
    }

    /// Records the outcome of an eviction or deletion of a pod; returns whether it was not accepted.
    fn note_attempt(&self, action: &Action, view: &View, performed: &kube::Result<Done>) -> bool {
        let (Action::EvictPod { uid, .. } | Action::DeletePod { uid, .. }) = action else {
            return false;
        };
        let outcome = match performed {
            Ok(_) => EvictionOutcome::Accepted,
            Err(error) if is_too_many_requests(error) => EvictionOutcome::Refused,
            Err(error) => EvictionOutcome::Failed(brief(error)),
        };
        let accepted = outcome == EvictionOutcome::Accepted;
        let drains = &self.executor.state.drains;
        drains.attempted(&Key::of(&view.machine), uid, self.executor.clock.now(), outcome);
        !accepted
    }

    /// Remembers a created VM, even if recording it fails, and the time of a failed call.
    fn remember(&self, machine: &Machine, answer: &Answer) {
        if defect!(UnwrittenProviderIdForgotten) {
            return;
        }
        if answer.is_failure() {
            self.failed_calls.note(Key::of(machine), self.executor.clock.now());
        }
        match answer {
            Answer::Create(Ok(vm)) => self.created_vms.remember(machine, vm),
            Answer::Status(_) | Answer::Stop(_) if machine.status.is_preserved() => {
                self.power_questions.note(Key::of(machine), self.executor.clock.now());
            }
            Answer::Update { result, .. } => {
                let provider = self.executor.state.provider_of(machine);
                self.update_support.answered(&provider, result.as_ref().err());
            }
            _ => {}
        }
    }
}

/// Results of one pass that are not in the caches.
#[derive(Default)]
struct Pass {
    answers: Vec<Answer>,
    token: TokenView,
    failure: Option<Failure>,
    /// The pods on the machine's Node, if they were listed.
    pods: Option<Vec<Pod>>,
    /// The result of a claim in the owner's list of preserved machines.
    claim: Option<Claimed>,
    hurry: bool,
    /// The permit for driver calls, from the first action that needs a driver to the end of the pass.
    permit: Option<Permit<Work>>,
}

enum Next {
    Decide,
    Wake(Option<Duration>),
    Retry(RetryCause),
}

/// The provider whose driver the action needs. A bootstrap token is only for the creation call that follows: a machine
/// whose driver is at its limit waits before its token is created, not after.
fn needed_driver(action: &Action, view: &View) -> Option<String> {
    let class = match action {
        Action::Call(call) => &call.class,
        Action::EnsureBootstrapToken(_) => view.class.as_ref()?,
        _ => return None,
    };
    Some(class.provider.clone().unwrap_or_default())
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
