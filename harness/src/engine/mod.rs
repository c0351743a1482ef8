//! The engine: performs the steps of a scenario on a stage, and processes and judges all observations.
//!
//! One loop consumes observations in order. After each observation it updates the world, checks the invariants and
//! evaluates the active expectations. Therefore the engine does not poll, and does not miss states that last only for a
//! moment. The crate `stage` performs requests, and `cli` prints results.

mod action_error;
mod active_disturbances;
mod agents;
mod autoscaler;
mod flap;
pub mod follower;
mod keeper;
mod misses;
mod node_drain;
pub mod observe;
mod perform;
mod quiet;
pub mod recording;
mod scope;
mod secrets;
mod steps;
mod strip;
mod target_bindings;
mod timed;
mod truth;
mod user_intent;
pub(crate) mod watched_kinds;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use dashboard::Arrival;
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use judge::armed::{Armed, Verdict};
use judge::evaluate::{self, describe, short};
use judge::invariants::{Invariants, JudgingRules, Violation};
use judge::texts;
use judge::world::WorldState;
use judge::{Failure, Miss, ScenarioOutcome, checked, end, preserved, signature};
use record::{Recorder, Unmet};
use scenario::Scenario;
use scenario::cloud::CloudEvent;
use scenario::job::Job;
use scenario::kinds::{Side, UnknownKind};
use scenario::observation::{Observation, Seen};
use scenario::plan::Disturbance;
use scenario::signature::Cause;
use scenario::step::Crash;
use stage::audit::Audit;
use stage::{LEASE, Performer, Stage};
use tokio::sync::watch;

use self::active_disturbances::ActiveDisturbances;
use self::follower::Follower;
use self::observe::Raw;
use self::recording::Recording;
use self::scope::Scope;
use self::target_bindings::TargetBindings;
use self::timed::TimedSteps;
use self::watched_kinds::{Starts, WatchedKinds};

/// The most observations that are recorded after a failure.
const MOST_REST: usize = 10_000;
/// How long the first lists of all watches may take.
const READY: Duration = Duration::from_secs(30);

/// The engine as a [`Performer`] for stages.
#[derive(Clone, Debug, Default)]
pub struct ScenarioEngine {
    /// Receives the record of the run.
    pub recording: Recording,
    /// Follows the run; in virtual time it may hold it up.
    follower: Option<Arc<dyn Follower>>,
    /// The disturbances of the plan, of which the engine performs the timed steps.
    disturbances: Vec<Disturbance>,
}

impl ScenarioEngine {
    /// An engine for a job.
    pub fn of(job: &Job) -> Self {
        Self {
            disturbances: job.plan.disturbances.clone(),
            ..Self::default()
        }
    }

    /// The same engine with a follower. It shares the recording.
    #[must_use]
    pub fn followed_by(&self, follower: Arc<dyn Follower>) -> Self {
        Self {
            follower: Some(follower),
            ..self.clone()
        }
    }
}

impl Performer for ScenarioEngine {
    async fn perform<S: Stage>(&self, stage: &mut S, scenario: &Scenario) -> ScenarioOutcome {
        perform(stage, scenario, self).await
    }
}

/// Performs `scenario` on `stage`, which must be running.
async fn perform<S: Stage>(stage: &mut S, scenario: &Scenario, engine: &ScenarioEngine) -> ScenarioOutcome {
    let ScenarioEngine {
        recording,
        follower,
        disturbances,
    } = engine;
    let started = stage.clock().now();
    recording.start(started);
    if let Some(follower) = follower {
        follower.begin(started, stage.trace());
    }
    let scope = Scope::of(scenario, stage.namespace());
    let kinds = WatchedKinds::of(scenario);
    let (served, watches) = kinds.wait_for_definitions(stage);
    let (keep, observations) = observe_all(stage, scenario, &kinds, watches);
    let mut rules = JudgingRules::new(stage.timeouts().clone(), started);
    rules.keeper = scenario.world.keeper.is_some();
    rules.dialect = scenario.world.preservation;
    if stage.is_disturbed() {
        rules.undisturbed_since = None;
    }
    let audits = stage.audits();
    let mut engine = Engine {
        clock: stage.clock().clone(),
        stage,
        observations,
        world: WorldState::of_kinds(scenario.kinds()),
        kinds,
        served,
        scope,
        recording: recording.clone(),
        audits,
        follower: follower.clone(),
        timed: TimedSteps::of(disturbances, started, &rules.timeouts),
        crashes: Vec::new(),
        armed: Vec::new(),
        misses: Vec::new(),
        cloud_hits: BTreeMap::new(),
        invariants: Invariants::new(rules),
        disturbances: ActiveDisturbances::default(),
        keep,
        called: TargetBindings::default(),
        leader: String::new(),
        started,
        step: 0,
    };
    let end_state = match engine.run(scenario).await {
        Ok(()) => engine.end_state().await,
        Err(failure) => Err(failure),
    };
    let ended = engine.clock.now();
    if end_state.is_err() {
        engine.record_rest();
    }
    engine.record_checks();
    let (failure, end) = match end_state {
        Ok(end) => (None, end),
        Err(failure) => (Some(failure), BTreeMap::new()),
    };
    ScenarioOutcome {
        world: engine.world,
        end,
        failure,
        misses: engine.misses,
        performed: engine.timed.performed.into_keys().collect(),
        lasted: evaluate::between(started, ended),
    }
}

/// The stream of all observations, and the channel that sets the number of machines of the keeper.
fn observe_all<S: Stage>(
    stage: &mut S,
    scenario: &Scenario,
    kinds: &WatchedKinds,
    mut others: Vec<BoxStream<'static, Raw>>,
) -> (watch::Sender<u32>, BoxStream<'static, Raw>) {
    let (client, clock, namespace) = (stage.client(), stage.clock().clone(), stage.namespace().to_owned());
    others.extend(observe::watch_lease(client.clone(), &namespace, LEASE, clock.clone()));
    let requests = stage.audits().into_iter().map(|audit| audit.follow());
    others.extend(requests.map(|requests| requests.map(Raw::Request).boxed()));
    let keeper = scenario.world.keeper.clone();
    let (keep, replicas) = watch::channel(keeper.as_ref().map_or(0, |keeper| keeper.replicas));
    if let Some(keeper) = keeper {
        let run = keeper::run(client, clock.clone(), &namespace, keeper, replicas);
        let failure = |error: UnknownKind| Raw::Failure(error.to_string());
        others.push(run.unwrap_or_else(|error| futures::stream::once(std::future::ready(failure(error))).boxed()));
    }
    if scenario.world.agents {
        others.push(agents::run(stage.clusters().target().clone(), clock.clone()));
    }
    let observations = observe::watch_everything(&stage.clusters(), &kinds.at_start, &stage.cloud(), &clock, others);
    (keep, observations)
}

struct Engine<'a, S> {
    clock: Clock,
    stage: &'a mut S,
    observations: BoxStream<'static, Raw>,
    world: WorldState,
    kinds: WatchedKinds,
    /// Starts the watches of the kinds that steps define.
    served: Starts,
    scope: Scope,
    recording: Recording,
    /// Those of the stage's API servers.
    audits: Vec<Audit>,
    follower: Option<Arc<dyn Follower>>,
    timed: TimedSteps,
    /// The crashes at a next effect that steps armed.
    crashes: Vec<(usize, Crash)>,
    armed: Vec<(usize, Armed)>,
    /// The steps without an effect so far.
    misses: Vec<Miss>,
    /// The hits of removed cloud rules, by the cloud's own count.
    cloud_hits: BTreeMap<String, u64>,
    invariants: Invariants,
    disturbances: ActiveDisturbances,
    keep: watch::Sender<u32>,
    called: TargetBindings,
    /// The last leader of the controllers; empty: there was none yet.
    leader: String,
    started: Timestamp,
    step: usize,
}

impl<S: Stage> Engine<'_, S> {
    async fn run(&mut self, scenario: &Scenario) -> Result<(), Failure> {
        self.first_lists().await?;
        if scenario.world.nodes > 0 {
            let created = self.stage.cloud().create_nodes(scenario.world.nodes).await;
            created.map_err(|error| self.failed(error))?;
        }
        for (index, step) in scenario.steps.iter().enumerate() {
            self.step = index + 1;
            self.stage.ahead(&scenario.steps[index..]);
            self.record_checks();
            // Before the step, at which a follower may wait, and after that.
            self.perform_timed_steps().await?;
            self.arrive(true)?;
            self.perform_timed_steps().await?;
            self.record_step(step);
            self.perform_step(step).await?;
        }
        self.watch_until(
            |engine| engine.armed.iter().all(|(_, armed)| armed.is_throughout()),
            None,
        )
        .await?;
        if !self.armed.is_empty() {
            // What contradicts one of the remaining expectations may have happened already, and its watch may be behind that
            // of the last step's objects.
            let skew = self.stage.timeouts().skew;
            let caught_up = self.stage.timeouts().deadline(self.clock.now(), skew);
            self.watch_until(|_| false, Some(caught_up)).await?;
        }
        // The remaining expectations hold throughout. They were evaluated after every observation and were not missed.
        for (step, armed) in std::mem::take(&mut self.armed) {
            self.met(step, &armed);
        }
        self.find_missed_faults(scenario).await?;
        Ok(())
    }

    /// Waits until the run's follower lets it go on. Fails if the follower ends it.
    fn arrive(&self, is_step: bool) -> Result<(), Failure> {
        let arrival = || Arrival {
            at: self.clock.now(),
            recorded: self.recording.count(),
            is_step,
            is_after_due_steps: self.timed.is_due(self.clock.now(), self.recording.count()),
        };
        let flow = self.follower.as_ref().map(|follower| follower.wait(arrival()));
        match flow {
            Some(ControlFlow::Break(())) => Err(self.failed("the run is not followed any more")),
            _ => Ok(()),
        }
    }

    /// The final state of the world.
    async fn end_state(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut end = end::of_world(&self.world);
        let secrets = secrets::secrets(&self.stage.clusters(), self.stage.namespace()).await;
        end.extend(secrets.map_err(|error| self.failed(error))?);
        Ok(end)
    }

    /// Waits until every watch has listed once, so that the first step's effects are not missed.
    async fn first_lists(&mut self) -> Result<(), Failure> {
        let waiting = self.kinds.at_start.iter().map(|kind| kind.key).collect();
        self.listed(waiting).await
    }

    /// Waits until the watches of these kinds have listed.
    async fn listed(&mut self, mut waiting: Vec<&str>) -> Result<(), Failure> {
        let deadline = self.later(READY);
        while !waiting.is_empty() {
            let raw = tokio::select! {
                biased;
                raw = self.observations.next() => raw,
                reason = self.stage.failure() => return Err(self.failed(reason)),
                () = self.clock.sleep_until(deadline) => {
                    let missing = waiting.join(", ");
                    return Err(self.failed(format!("the API server did not list {missing} within {}", short(READY))));
                }
            };
            if let Some(Raw::Listed(kind)) = &raw {
                waiting.retain(|waits| *waits != kind.key);
            }
            self.process_raw(raw).await?;
        }
        Ok(())
    }

    /// Processes observations until `done` returns true or `deadline` comes.
    async fn watch_until(&mut self, done: impl Fn(&Self) -> bool, deadline: Option<Timestamp>) -> Result<(), Failure> {
        loop {
            self.perform_timed_steps().await?;
            self.judge()?;
            let now = self.clock.now();
            if done(self) || deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(());
            }
            let wake = self
                .next_wake()
                .into_iter()
                .chain(self.invariants.due())
                .chain(self.timed.next())
                .chain(deadline)
                .min()
                .unwrap_or(Timestamp::MAX);
            let raw = tokio::select! {
                biased;
                raw = self.observations.next() => raw,
                reason = self.stage.failure() => return Err(self.failed(reason)),
                () = self.clock.sleep_until(wake) => continue,
            };
            self.process_raw(raw).await?;
        }
    }

    /// The latest time for the next evaluation of an expectation.
    fn next_wake(&mut self) -> Option<Timestamp> {
        let now = self.clock.now();
        let timeouts = self.stage.timeouts();
        let (world, armed) = (&self.world, &mut self.armed);
        armed
            .iter_mut()
            .filter_map(|(_, armed)| match armed.judge(now, world, timeouts) {
                Verdict::Pending(until) => Some(until),
                Verdict::Met | Verdict::Missed(_) => None,
            })
            .min()
    }

    async fn process_raw(&mut self, raw: Option<Raw>) -> Result<(), Failure> {
        self.process_raw_at(self.clock.now(), raw).await
    }

    async fn process_raw_at(&mut self, at: Timestamp, raw: Option<Raw>) -> Result<(), Failure> {
        let raw = raw.ok_or_else(|| self.failed("the watches ended"))?;
        for what in self.seen(raw) {
            self.absorb(Observation { at, what }).await?;
        }
        Ok(())
    }

    /// Records what has arrived already when the run fails, without judging it: the cloud reports a VM before the call that
    /// created it.
    fn record_rest(&mut self) {
        let at = self.clock.now();
        for _ in 0..MOST_REST {
            let Some(Some(raw)) = self.observations.next().now_or_never() else {
                return;
            };
            for what in self.seen(raw) {
                self.record(&Observation { at, what });
            }
        }
    }

    fn seen(&self, raw: Raw) -> Vec<Seen> {
        match raw {
            Raw::Applied(kind, object) | Raw::Deleted(kind, object) if !self.scope.has(kind, &object, &self.world) => {
                Vec::new()
            }
            Raw::Applied(kind, object) => vec![Seen::Applied(kind, object)],
            Raw::Deleted(kind, object) => vec![Seen::Deleted(kind, object)],
            Raw::Cloud(event) => vec![Seen::Cloud(event)],
            Raw::Listed(_) => Vec::new(),
            Raw::NotServed(kind) => {
                let objects = self.world.of_kind(kind.key);
                objects
                    .map(|object| Seen::Deleted(kind, Box::new(object.clone())))
                    .collect()
            }
            // With two clusters, an object that is missing in one list may exist in the other cluster.
            Raw::Left(kind, _) if kind.side == Side::Both && self.stage.clusters().are_two() => Vec::new(),
            Raw::Left(kind, listed) => self
                .world
                .objects
                .iter()
                .filter(|((of, namespace, name), _)| {
                    *of == kind.key && !listed.contains(&(namespace.clone(), name.clone()))
                })
                .map(|(_, object)| Seen::Deleted(kind, Box::new(object.clone())))
                .collect(),
            Raw::Request(request) => vec![Seen::Request(request)],
            Raw::Note(what) | Raw::Failure(what) => vec![Seen::Note(what)],
        }
    }

    async fn absorb(&mut self, observation: Observation) -> Result<(), Failure> {
        self.arrive(false)?;
        if let Seen::Deleted(kind, _) = &observation.what
            && kind.key == "Machine"
        {
            self.catch_up_with_cloud().await?;
        }
        if let Seen::Cloud(CloudEvent::Call(call)) = &observation.what
            && let Some(rule) = &call.rule
        {
            self.stage
                .fault(&call.call, &format!("{rule} hits {}: {}", call.machine, call.code));
        }
        let truth = self.machine_of_deletion(&observation).await?;
        self.catch_up_with_lease(&observation).await?;
        self.catch_up_with_set(&observation).await?;
        let before = self.record(&observation);
        self.count_events(&observation, before.as_ref());
        self.update_undisturbed_since();
        let violation = self
            .invariants
            .observe(&self.world, &observation, before.as_ref(), &truth);
        if let Some(violation) = violation {
            self.recording
                .add(|recorder| recorder.violated(violation.invariant, true));
            return Err(self.broken(&violation));
        }
        for (_, armed) in &mut self.armed {
            armed.record(observation.at, &self.world);
        }
        self.judge_after(true)
    }

    /// Adds an observation to the world and to the record; returns the object's previous version.
    fn record(&mut self, observation: &Observation) -> Option<serde_json::Value> {
        let lines = texts::of_observation(observation, &self.world);
        let before = self.world.absorb(observation);
        let open = self.audits.iter().map(Audit::open_watches).sum();
        self.recording.add(|recorder| {
            recorder.observe(observation, before.as_ref(), &lines);
            if !self.audits.is_empty() {
                recorder.open_watches(observation.at, open);
            }
        });
        if let Some(follower) = &self.follower {
            follower.observe(observation);
        }
        before
    }

    /// Counts the events of preservations and health checks that an observation causes.
    fn count_events(&mut self, observation: &Observation, before: Option<&serde_json::Value>) {
        let rules = &self.invariants.rules;
        let events = preserved::events(observation, before, &self.world, rules);
        self.world.count(events);
        self.world.count_checked(checked::events(observation, before));
        let leads = self.world.leadership.as_ref().map(|leads| leads.holder.as_str());
        let leads = leads.filter(|leads| !leads.is_empty() && *leads != self.leader);
        if let Some(leads) = leads.map(str::to_owned) {
            let before = std::mem::replace(&mut self.leader, leads);
            let drains = preserved::crashed(&self.world).filter(|_| self.stage.has_crashed(&before));
            self.world.count(drains);
        }
    }

    fn broken(&self, violation: &Violation) -> Failure {
        Failure {
            invariant: Some(violation.invariant),
            signature: signature::of_violation(violation, &self.world),
            ..self.failed(violation)
        }
    }

    /// Checks deadlines of invariants and evaluates the active expectations. Fails with the first violation or miss.
    fn judge(&mut self) -> Result<(), Failure> {
        self.judge_after(false)
    }

    /// Like [`Self::judge`]; `observed`: because of the latest observation, which the record names as the cause.
    fn judge_after(&mut self, observed: bool) -> Result<(), Failure> {
        if !observed {
            self.recording.add(Recorder::forget_observation);
        }
        let now = self.clock.now();
        self.count_api_faults();
        if let Some(violation) = self.invariants.overdue(now, &self.world) {
            self.recording
                .add(|recorder| recorder.violated(violation.invariant, false));
            return Err(self.broken(&violation));
        }
        let timeouts = self.stage.timeouts();
        let mut missed = None;
        let mut pending = Vec::with_capacity(self.armed.len());
        let mut met = Vec::new();
        for (step, mut armed) in std::mem::take(&mut self.armed) {
            match armed.judge(now, &self.world, timeouts) {
                Verdict::Pending(_) => pending.push((step, armed)),
                Verdict::Met => met.push((step, armed)),
                Verdict::Missed(shown) => {
                    let count = armed.evaluations();
                    let unmet = armed.unmet(&self.world, timeouts).into_iter();
                    let unmet = unmet.map(|(wanted, found)| Unmet { wanted, found }).collect();
                    self.recording
                        .add(|recorder| recorder.missed(now, step, count, &shown, unmet));
                    let reason = format!("expected {}; but {shown}", armed.expectation());
                    let signature = armed.signature(&self.world, timeouts);
                    missed.get_or_insert((step, reason, signature, armed.readings(self.started)));
                    pending.push((step, armed));
                }
            }
        }
        self.armed = pending;
        for (step, armed) in met {
            self.met(step, &armed);
        }
        let Some((step, reason, signature, readings)) = missed else {
            return Ok(());
        };
        self.recording.add(|recorder| recorder.readings(step, readings));
        Err(Failure {
            step,
            expectation: true,
            signature,
            ..self.failed(reason)
        })
    }

    /// Records an expectation that is met.
    fn met(&mut self, step: usize, armed: &Armed) {
        let shown = describe(&armed.expectation().that, &self.world);
        let (now, count) = (self.clock.now(), armed.evaluations());
        let readings = armed.readings(self.started);
        self.recording.add(|recorder| {
            recorder.met(now, step, count, &shown);
            recorder.readings(step, readings);
        });
        let reason = armed.ungrounded(&self.world);
        if let Some(reason) = reason.filter(|_| !armed.expectation().may_miss) {
            self.miss(step, format!("the expectation could not fail: {reason}"));
        }
    }

    /// Records how often invariants and the remaining expectations were evaluated.
    fn record_checks(&self) {
        let now = self.clock.now();
        self.recording.add(|recorder| {
            recorder.invariants(self.invariants.evaluations());
            for (step, armed) in &self.armed {
                let observed = describe(&armed.expectation().that, &self.world);
                recorder.undecided(now, *step, armed.evaluations(), &observed);
            }
        });
    }

    /// Adds a note to the record.
    fn note(&self, what: &str) {
        let now = self.clock.now();
        self.recording.add(|recorder| recorder.note(now, what));
    }

    fn later(&self, time: Duration) -> Timestamp {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.clock.now().saturating_add(time).unwrap_or(Timestamp::MAX)
    }

    fn failed(&self, reason: impl std::fmt::Display) -> Failure {
        let reason = reason.to_string();
        Failure {
            after: evaluate::between(self.started, self.clock.now()),
            step: self.step,
            invariant: None,
            expectation: false,
            signature: signature::of_reason(Cause::Step, &reason, &self.world),
            reason,
        }
    }
}
