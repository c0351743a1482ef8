//! Performs the steps of a scenario. During long-running actions the engine continues to process observations.

use futures::channel::mpsc;
use futures::stream::StreamExt;
use jiff::Timestamp;
use judge::Failure;
use judge::armed::Armed;
use judge::evaluate::short;
use judge::world::WorldState;
use scenario::step::deferred_target::DeferredTarget;
use scenario::step::{CloudRequest, ProcessStep, Request};
use scenario::{DurationExpression, Step};
use stage::{Stage, StageError};

use super::action_error::ActionError;
use super::perform::Effect;
use super::{Engine, perform, user_intent};

/// Why an action failed.
pub(super) enum StepError {
    /// The action cannot be performed.
    Refused(ActionError),
    /// The run failed during the action.
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
    /// Performs a step. An expectation that is `meanwhile` is only started.
    pub(super) async fn perform_step(&mut self, step: &Step) -> Result<(), Failure> {
        match step.request() {
            Request::Wait(time) => {
                let time = time.value(self.stage.timeouts());
                let deadline = self.later(time);
                self.watch_until(|_| false, Some(deadline)).await
            }
            Request::Expect(expectation) => {
                let now = self.clock.now();
                self.recording
                    .add(|recorder| recorder.expect(now, self.step, expectation));
                self.armed
                    .push((self.step, Armed::new(expectation.clone(), now, &self.world)));
                let step = self.step;
                if expectation.meanwhile {
                    return self.judge();
                }
                self.watch_until(|engine| engine.armed.iter().all(|(armed, _)| *armed != step), None)
                    .await
            }
            Request::QuietEnd(quiet) => self.quiet_end(quiet).await,
            Request::Resolve(target) => Box::pin(self.resolve_and_act(target)).await,
            _ => match Box::pin(self.user_action(step)).await {
                Ok(()) => Ok(()),
                Err(StepError::Refused(error)) => Err(self.failed(error)),
                Err(StepError::Ended(failure)) => Err(failure),
            },
        }
    }

    /// The values of a step's durations that refer to timeouts by name: ` (2 * slack = 20s)`.
    fn values(&self, step: &Step) -> String {
        let durations: Vec<&DurationExpression> = match step.request() {
            Request::Wait(time) => vec![time],
            Request::Expect(expectation) => expectation.durations(),
            Request::QuietEnd(quiet) => vec![&quiet.settles],
            _ => Vec::new(),
        };
        let named = durations.iter().filter(|duration| duration.has_names());
        let values = named.map(|duration| format!("{duration} = {}", short(duration.value(self.stage.timeouts()))));
        let values: Vec<String> = values.collect();
        if values.is_empty() {
            return String::new();
        }
        format!(" ({})", values.join(", "))
    }

    /// Records that a step begins. A deferred step is recorded when its machine is chosen.
    pub(super) fn record_step(&self, step: &Step) {
        let now = self.clock.now();
        let until = match step.request() {
            Request::Resolve(_) => return,
            Request::Pause(pause) => Some(self.later(pause.time.value(self.stage.timeouts()))),
            _ => None,
        };
        let entries = self.stage.trace().map(::sim::Trace::len);
        let values = self.values(step);
        self.recording.add(|recorder| {
            recorder.step(now, self.step, step, &values, until);
            if let Some(entries) = entries {
                recorder.place_step(entries);
            }
        });
    }

    /// Chooses a machine and acts on it. Without a matching machine, or if the action is refused, the scenario
    /// continues, and the step has missed.
    async fn resolve_and_act(&mut self, target: &DeferredTarget) -> Result<(), Failure> {
        let now = self.clock.now();
        let step = self.called.resolve(target, &self.world, self.stage.timeouts(), now);
        let missed = match step {
            None => {
                self.note(&format!("step {}: {target}: no machine matches", self.step));
                format!(
                    "{target}: no machine matches {:?}, or the action does not apply to it",
                    target.among
                )
            }
            Some(step) => {
                self.record_step(&step);
                match self.user_action(&step).await {
                    Ok(()) => return Ok(()),
                    Err(StepError::Refused(error)) => {
                        self.note(&format!("step {}: refused: {error}", self.step));
                        format!("{target}: {error}")
                    }
                    Err(StepError::Ended(failure)) => return Err(failure),
                }
            }
        };
        if !target.may_miss {
            self.miss(self.step, missed);
        }
        Ok(())
    }

    /// Performs an action of a user or a fault, and records it in the judging rules.
    pub(super) async fn user_action(&mut self, action: &Step) -> Result<(), StepError> {
        self.allow_for(action);
        // A disturbance is recorded before the action starts, and is evaluated again after the action.
        if let Some(change) = action.disturbance() {
            self.disturbances.apply(change);
        }
        self.update_undisturbed_since();
        let effect = self.act(action).await?;
        self.watch_new_kinds(action).await?;
        self.update_undisturbed_since();
        if effect == Effect::Nothing && !action.may_miss() {
            self.miss(self.step, format!("{}: nothing was changed", action.description()));
        }
        Ok(())
    }

    /// Records in the judging rules what the user changes, so that invariants do not attribute it to the controller.
    fn allow_for(&mut self, action: &Step) {
        let targets = action.targets();
        if let Some(object) = targets.object {
            let kind = self.world.kinds.find(object.api_version.as_deref(), &object.kind);
            // A kind of the same name in another group is not mcm's.
            let kind = kind.map_or(object.kind, |kind| kind.key.to_owned());
            let cordoned = is_cordoned(&self.world, &object.name);
            let rules = &mut self.invariants.rules;
            match targets.cordons {
                // Cordoning a cordoned node changes nothing.
                Some(true) if !cordoned => drop(rules.cordons.insert(object.name.clone())),
                Some(false) => drop(rules.cordons.remove(&object.name)),
                Some(true) | None => {}
            }
            rules.touched(&kind, &object.name);
            if targets.forces && kind == "Machine" {
                rules.forced.insert(object.name.clone());
            }
            if targets.deletes {
                rules.deleted_by_user.insert((kind, object.name));
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

    /// Performs an action while the engine processes observations.
    async fn act(&mut self, action: &Step) -> Result<Effect, StepError> {
        if let Some(target) = action.targets().fault {
            // The complete step, so that different faults are different in the trace.
            let what = serde_json::to_string(action).unwrap_or_else(|_| action.description());
            self.stage.fault(&target, &what);
        }
        match action.request() {
            Request::Process(step) => {
                self.process(step).await?;
                return Ok(Effect::Something);
            }
            Request::Crash(crash) => {
                self.stage.crash(crash).map_err(refused)?;
                return Ok(Effect::Something);
            }
            Request::CrashNext(crash) => {
                let crash = self.stage.crash_next(crash).map_err(refused)?;
                self.crashes.push((self.step, crash));
                return Ok(Effect::Something);
            }
            Request::Pause(pause) => {
                let time = pause.time.value(self.stage.timeouts());
                let until = Some(self.later(time));
                self.invariants.rules.paused_until = self.invariants.rules.paused_until.max(until);
                let paused = self.stage.pause(pause.process, time).await;
                paused.map_err(refused)?;
                return Ok(Effect::Something);
            }
            Request::Cloud(CloudRequest::Inject(fault)) if fault.is_byzantine() => {
                self.invariants.rules.byzantine.insert(fault.name.clone());
            }
            Request::Cloud(CloudRequest::Lift(rule)) => {
                let hits = self.stage.cloud().lift(rule).await;
                self.count_cloud_hits([(rule.to_owned(), hits.map_err(ActionError::from)?)]);
                return Ok(Effect::Something);
            }
            Request::AddApiFault(fault) => {
                self.add_api_fault(fault).await?;
                return Ok(Effect::Something);
            }
            Request::LiftApiFault(rule) => {
                self.lift_api_fault(rule)?;
                return Ok(Effect::Something);
            }
            Request::Keep(replicas) => {
                self.keep.send_replace(replicas);
                return Ok(Effect::Something);
            }
            _ => {}
        }
        let subject = perform::subject(action, &self.world)?;
        let (notes, mut noted) = mpsc::unbounded();
        let handles = perform::Handles {
            clusters: self.stage.clusters(),
            kinds: self.world.kinds.clone(),
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
                    self.note(&what);
                    continue;
                }
                done = &mut acting => {
                    while let Ok(what) = noted.try_recv() {
                        self.note(&what);
                    }
                    return Ok(done?);
                }
                raw = self.observations.next() => raw,
                reason = self.stage.failure() => return Err(self.failed(reason).into()),
                () = self.clock.sleep_until(self.timed.next().unwrap_or(Timestamp::MAX)) => {
                    Box::pin(self.perform_timed_steps()).await?;
                    continue;
                }
            };
            self.process_raw(raw).await?;
        }
    }

    /// Ends or starts a process. Observations that arrive meanwhile are processed afterwards, with their times.
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
            self.process_raw_at(at, Some(raw)).await?;
        }
        done.map_err(refused)
    }
}

/// Converts an error of the stage.
fn refused(error: StageError) -> StepError {
    StepError::Refused(error.into())
}

/// Whether a node is cordoned.
fn is_cordoned(world: &WorldState, node: &str) -> bool {
    let node = world.object("Node", node);
    node.is_some_and(|node| node["spec"]["unschedulable"] == true)
}
