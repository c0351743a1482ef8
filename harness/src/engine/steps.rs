//! The steps of a scenario: those that the engine performs itself, and actions, which are performed while observations are
//! taken in.

use futures::channel::mpsc;
use futures::stream::StreamExt;
use judge::Failure;
use judge::evaluate::{Armed, short};
use judge::world::WorldState;
use scenario::Step;
use scenario::step::deferred_target::DeferredTarget;
use scenario::step::{CloudRequest, ProcessStep, Request};
use stage::{Stage, StageError};

use super::action_error::ActionError;
use super::{Engine, perform, user_intent};

/// Why an action has no effect.
pub(super) enum StepError {
    /// It cannot be done.
    Refused(ActionError),
    /// The run ends.
    Ended(Failure),
}

impl From<ActionError> for StepError {
    fn from(error: ActionError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

impl<S: Stage> Engine<'_, S> {
    /// Performs a step. An expectation that is made `meanwhile` is only begun.
    pub(super) async fn perform_step(&mut self, step: &Step) -> Result<(), Failure> {
        match step.request() {
            Request::Wait(time) => {
                let time = time.value(self.stage.timeouts());
                self.note(format!("step {}: wait {}", self.step, short(time)));
                let deadline = self.later(time);
                self.watch_until(|_| false, Some(deadline)).await
            }
            Request::Expect(expectation) => {
                self.note(format!("step {}: expect {expectation}", self.step));
                let now = self.clock.now();
                self.armed
                    .push((self.step, Armed::new(expectation.clone(), now, &self.world)));
                let step = self.step;
                if expectation.meanwhile {
                    return self.judge();
                }
                self.watch_until(|engine| engine.armed.iter().all(|(armed, _)| *armed != step), None)
                    .await
            }
            Request::QuietEnd(quiet) => {
                self.note(format!("step {}: {}", self.step, step.description()));
                self.quiet_end(quiet).await
            }
            Request::Resolve(target) => Box::pin(self.resolve_and_act(target)).await,
            _ => match Box::pin(self.user_action(step)).await {
                Ok(()) => Ok(()),
                Err(StepError::Refused(error)) => Err(self.failed(error)),
                Err(StepError::Ended(failure)) => Err(failure),
            },
        }
    }

    /// Acts on a machine that is chosen now. Without such a machine, or if the action is refused, the scenario goes on.
    async fn resolve_and_act(&mut self, target: &DeferredTarget) -> Result<(), Failure> {
        let now = self.clock.now();
        let step = self.called.resolve(target, &self.world, self.stage.timeouts(), now);
        let Some(step) = step else {
            self.note(format!("step {}: {target}: there is no such machine", self.step));
            return Ok(());
        };
        match self.user_action(&step).await {
            Ok(()) => Ok(()),
            Err(StepError::Refused(error)) => {
                self.note(format!("step {}: refused: {error}", self.step));
                Ok(())
            }
            Err(StepError::Ended(failure)) => Err(failure),
        }
    }

    /// Performs what a user does, or what fails, and tells the invariants about it.
    async fn user_action(&mut self, action: &Step) -> Result<(), StepError> {
        self.note(format!("step {}: {}", self.step, action.description()));
        self.allow_for(action);
        // A disturbance counts from its beginning, and its end from when it is done.
        if let Some(change) = action.disturbance() {
            self.disturbances.apply(change);
        }
        self.look_for_calm();
        self.act(action).await?;
        self.look_for_calm();
        Ok(())
    }

    /// Tells the invariants what is the user's doing and not the controller's.
    fn allow_for(&mut self, action: &Step) {
        let targets = action.targets();
        if let Some(object) = targets.object {
            let cordoned = is_cordoned(&self.world, &object.name);
            let rules = &mut self.invariants.rules;
            match targets.cordons {
                // To cordon a cordoned node changes nothing.
                Some(true) if !cordoned => drop(rules.cordons.insert(object.name.clone())),
                Some(false) => drop(rules.cordons.remove(&object.name)),
                Some(true) | None => {}
            }
            rules.touched(&object.kind, &object.name);
            if targets.forces && object.kind == "Machine" {
                rules.forced.insert(object.name.clone());
            }
            if targets.deletes {
                rules.deleted_by_user.insert((object.kind, object.name));
            }
        }
        if let Some((machine, value)) = user_intent::preservation_request(action, &self.world) {
            let requests = &mut self.invariants.rules.requests;
            requests.insert(machine.to_owned(), value.map(str::to_owned));
        }
        if let Some(machine) = user_intent::ends_preservation(action) {
            self.invariants.rules.ended_by_user.insert(machine.to_owned());
        }
        if let Request::Cloud(CloudRequest::SlowCreation(slow)) = action.request() {
            self.invariants.rules.late.insert(slow.name.clone());
        }
    }

    /// Performs an action while observations are taken in.
    async fn act(&mut self, action: &Step) -> Result<(), StepError> {
        if let Some(target) = action.targets().fault {
            // In full: two faults that differ in anything differ in the trace.
            let what = serde_json::to_string(action).unwrap_or_else(|_| action.description());
            self.stage.fault(&target, &what);
        }
        match action.request() {
            Request::Process(step) => return self.process(step).await,
            Request::Crash(crash) => return self.stage.crash(crash).map_err(refused),
            Request::Pause(pause) => {
                let time = pause.time.value(self.stage.timeouts());
                self.invariants.rules.paused_until = Some(self.later(time));
                let paused = self.stage.pause(pause.process, time).await;
                return paused.map_err(refused);
            }
            Request::Cloud(CloudRequest::Inject(fault)) if fault.is_byzantine() => {
                self.invariants.rules.byzantine.insert(fault.name.clone());
            }
            Request::AddApiFault(fault) => return Ok(self.add_api_fault(fault).await?),
            Request::LiftApiFault(rule) => return Ok(self.lift_api_fault(rule)?),
            Request::Keep(replicas) => {
                self.keep.send_replace(replicas);
                return Ok(());
            }
            _ => {}
        }
        let subject = perform::subject(action, &self.world)?;
        let (notes, mut noted) = mpsc::unbounded();
        let handles = perform::Handles {
            clusters: self.stage.clusters(),
            cloud: self.stage.cloud(),
            timeouts: self.stage.timeouts().clone(),
            namespace: self.stage.namespace().to_owned(),
            clock: self.clock.clone(),
            notes,
        };
        let mut acting = std::pin::pin!(perform::perform(handles, action, &subject));
        loop {
            let raw = tokio::select! {
                biased;
                Some(what) = noted.next() => {
                    self.note(what);
                    continue;
                }
                done = &mut acting => {
                    while let Ok(what) = noted.try_recv() {
                        self.note(what);
                    }
                    return Ok(done?);
                }
                raw = self.observations.next() => raw,
                reason = self.stage.trouble() => return Err(self.failed(reason).into()),
            };
            self.take_in(raw).await?;
        }
    }

    /// Ends or starts a process. What is seen meanwhile is kept with its time, and taken in afterwards.
    async fn process(&mut self, step: &ProcessStep) -> Result<(), StepError> {
        let mut seen = Vec::new();
        let done = {
            let mut acting = std::pin::pin!(self.stage.process(step.name, step.action));
            loop {
                tokio::select! {
                    biased;
                    done = &mut acting => break done,
                    Some(raw) = self.observations.next() => seen.push((self.clock.now(), raw)),
                }
            }
        };
        for (at, raw) in seen {
            self.take_in_at(at, Some(raw)).await?;
        }
        done.map_err(refused)
    }
}

/// A step that the stage does not perform.
fn refused(error: StageError) -> StepError {
    StepError::Refused(error.into())
}

/// Whether a node takes no pods.
fn is_cordoned(world: &WorldState, node: &str) -> bool {
    let node = world.object("Node", node);
    node.is_some_and(|node| node["spec"]["unschedulable"] == true)
}
