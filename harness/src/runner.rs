//! One plan, once: a stage is brought up, the scenario performed and disturbed, the result written down.
//!
//! What lives here: the job (a plan and where it runs) and its result, both of which travel between processes as JSON.
//! What must not: how many jobs there are and how they are shown (`cli`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, LostTime};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::campaign::Occurred;
use crate::engine::ScenarioOutcome;
use crate::engine::evaluate::between;
use crate::plan::{Disturbance, Limits, Plan};
use crate::report::folder;
use crate::scenario::step::{Crash, Process};
use crate::scenario::{Scenario, Timeouts};
use crate::stage::audit::Access;
use crate::stage::plane::envtest::Spares;
use crate::stage::plane::{Plane, Planes};
use crate::stage::role::Role;
use crate::stage::writes::Write;
use crate::stage::{NAMESPACE, StageKind, processes, sim};

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// What is performed, and what disturbs it.
    pub plan: Plan,
    /// Where it was read from; absent: it is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Whether it comes from a plan, so that its scenario has no name or file by which it is found again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_plan: bool,
    /// Where it runs.
    pub stage: StageKind,
    /// Where the cluster is that nodes join; absent: it is the one that holds machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StageKind>,
    /// Whether its result tells everything that happened, also when it passes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrate: bool,
    /// Iterates once in hash order on purpose, to show that a comparison of traces finds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hash_order: bool,
    /// Whether Leases and watches are renewed in virtual time also where nobody would miss it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_renewal: bool,
    /// Whether its result tells what mcm wrote, with bodies; in `sim`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes: bool,
    /// Arguments of its stage, as a command line has them; for replaying.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// A command that replaces mcm; on stages of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Below which the folder of a failed run is made.
    pub reports: PathBuf,
}

impl Job {
    /// A plain run.
    pub fn new(scenario: Scenario, stage: StageKind, seed: u64) -> Self {
        Self {
            from_plan: false,
            ..Self::of(Plan::new(scenario, seed), stage)
        }
    }

    /// A plan, on a stage.
    pub fn of(plan: Plan, stage: StageKind) -> Self {
        Self {
            plan,
            file: None,
            from_plan: true,
            stage,
            target: None,
            narrate: false,
            hash_order: false,
            every_renewal: false,
            writes: false,
            on: String::new(),
            controller: None,
            reports: PathBuf::from(".drydock/reports"),
        }
    }

    /// The command line that does the same again: one with names and numbers where that says everything, else one with
    /// the plan that a failed run leaves.
    pub fn replay(&self) -> String {
        let crash = match self.plan.disturbances.as_slice() {
            [] => None,
            [Disturbance::Crash(crash)] if crash.process == Process::Mcm => Some(*crash),
            _ => return self.replay_of_plan(),
        };
        if self.from_plan || self.plan.limits != Limits::default() {
            return self.replay_of_plan();
        }
        let mut line = match &self.file {
            Some(file) => format!("drydock run --file {}", file.display()),
            None => format!("drydock run {}", self.plan.scenario.name),
        };
        line += &format!(
            " --stage {}{} --seed {}{}",
            self.stage,
            self.target_flag(),
            self.plan.seed,
            self.on
        );
        if let Some(Crash { at, effect, .. }) = crash {
            line += &format!(" --crash {at}:{effect}");
        }
        if let Some(mutant) = &self.plan.mutant {
            line += &format!(" --mutant {mutant}");
        }
        if let Some(controller) = &self.controller {
            line += &format!(" --controller '{}'", controller.replace('\'', r"'\''"));
        }
        line
    }

    /// Its disturbances with their hits; none is known where the list ends.
    fn struck(&self, hits: &[u64]) -> Vec<DisturbanceHits> {
        let hits = hits.iter().copied().chain(std::iter::repeat(0));
        let struck = |(disturbance, hits): (&Disturbance, u64)| DisturbanceHits {
            what: disturbance.to_string(),
            kind: disturbance.kind(),
            hits,
        };
        self.plan.disturbances.iter().zip(hits).map(struck).collect()
    }

    fn replay_of_plan(&self) -> String {
        let plan = self.folder().join(folder::PLAN);
        let mut line = format!("drydock run --plan {}", plan.display());
        if self.stage != StageKind::Sim {
            line += &format!(" --stage {}{}", self.stage, self.on);
        }
        line + &self.target_flag()
    }

    fn target_flag(&self) -> String {
        self.target
            .map_or_else(String::new, |target| format!(" --target-stage {target}"))
    }

    /// The folder for a failure of this job.
    pub fn folder(&self) -> PathBuf {
        let target = self.target.map_or_else(String::new, |target| format!("-{target}"));
        let mut name = format!("{}{target}-{}-{}", self.stage, self.plan.scenario.name, self.plan.seed);
        match self.plan.disturbances.as_slice() {
            [] => {}
            [Disturbance::Crash(crash)] if crash.process == Process::Mcm => {
                name += &format!("-crash-{}-effect-{}", crash.at, crash.effect)
            }
            disturbances => {
                let text = serde_json::to_string(disturbances).unwrap_or_default();
                let digest = Sha256::digest(text.as_bytes());
                name += "-disturbed-";
                digest[..4].iter().for_each(|byte| name += &format!("{byte:02x}"));
            }
        }
        self.reports.join(name)
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// The scenario's name.
    pub scenario: String,
    /// Where it ran.
    pub stage: StageKind,
    /// Where the nodes joined; absent: where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StageKind>,
    /// Its seed.
    pub seed: u64,
    /// What disturbed it, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<DisturbanceHits>,
    /// Why it failed; absent: it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureResult>,
    /// How long it took by the stage's clock.
    pub stage_seconds: f64,
    /// How long it took by the wall clock.
    pub wall_seconds: f64,
    /// How long the machine kept this process waiting meanwhile, by which deadlines were extended; on the wall clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_seconds: f64,
    /// The trace of a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// What was left at the end, without what differs between two clean runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end: BTreeMap<String, String>,
    /// How often each fault rule struck.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    /// What happened, by kind and number.
    #[serde(default)]
    pub occurred: Occurred,
    /// Everything that happened, in words without times: of a run that failed, or that was asked to tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrative: Vec<String>,
    /// What mcm did, in `sim`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<::sim::Effect>,
    /// What mcm wrote and asked of the cloud, where the job wants it told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
    /// What mcm and fakecloud asked of the API server, where that is ours.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requests: BTreeSet<Access>,
    /// The folder that a failed run left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// The command line that does the same again.
    pub replay: String,
}

/// A disturbance, and how often it struck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisturbanceHits {
    /// In one line.
    pub what: String,
    /// What kind of fault it is.
    pub kind: String,
    /// How often it struck.
    pub hits: u64,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureResult {
    /// When, by the stage's clock, since the scenario's start.
    pub after_seconds: f64,
    /// In which step, counted from 1; 0: before the first.
    pub step: usize,
    /// The broken invariant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<String>,
    /// Whether an expectation of the scenario was missed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expectation: bool,
    /// In one sentence.
    pub reason: String,
}

/// What tells two simulated runs apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceSummary {
    /// SHA-256 over all entries.
    pub hash: String,
    /// How many there are.
    pub entries: u64,
}

impl RunResult {
    /// Where it ran, in words.
    pub fn place(&self) -> String {
        match self.target {
            Some(target) => format!("{} with {target}", self.stage),
            None => self.stage.to_string(),
        }
    }

    /// Whether every expectation was met and no invariant broken.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The result of a job that never got as far as its scenario.
    pub fn broken(job: &Job, reason: String) -> Self {
        let failure = FailureResult {
            after_seconds: 0.0,
            step: 0,
            invariant: None,
            expectation: false,
            reason,
        };
        Self {
            scenario: job.plan.scenario.name.clone(),
            stage: job.stage,
            target: job.target,
            seed: job.plan.seed,
            disturbances: job.struck(&[]),
            failure: Some(failure),
            stage_seconds: 0.0,
            wall_seconds: 0.0,
            lost_seconds: 0.0,
            trace: None,
            end: BTreeMap::new(),
            faults: BTreeMap::new(),
            occurred: Occurred::default(),
            narrative: Vec::new(),
            effects: Vec::new(),
            writes: Vec::new(),
            requests: BTreeSet::new(),
            report: None,
            replay: job.replay(),
        }
    }
}

/// What a stage hands back: what was told, or why it never began, and what only it knows.
#[derive(Debug)]
pub struct Ran {
    /// What happened.
    pub outcome: Result<ScenarioOutcome, String>,
    /// Of a simulated run.
    pub trace: Option<TraceSummary>,
    /// Of a simulated run.
    pub effects: Vec<::sim::Effect>,
    /// Of a simulated run whose job wants them told.
    pub writes: Vec<Write>,
    /// How often each disturbance struck, in the plan's order.
    pub hits: Vec<u64>,
    /// Logs by file name.
    pub logs: BTreeMap<String, Vec<u8>>,
    /// What mcm and fakecloud asked of an API server of ours.
    pub requests: BTreeSet<Access>,
    /// What it refused them: roles of `deploy/rbac` that lack something.
    pub refused: BTreeSet<String>,
}

impl Ran {
    /// With how tidying up went: where it failed, so did the run. Why the run itself failed stays in front.
    #[must_use]
    pub fn tidied(mut self, tidied: Result<(), String>) -> Self {
        if let Err(reason) = tidied {
            match &mut self.outcome {
                Ok(ScenarioOutcome {
                    failure: Some(failure), ..
                }) => failure.reason = format!("{}; then {reason}", failure.reason),
                Ok(_) => self.outcome = Err(reason),
                Err(before) => self.outcome = Err(format!("{before}; then {reason}")),
            }
        }
        self
    }

    /// What every stage knows.
    pub fn new(outcome: Result<ScenarioOutcome, String>, logs: BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            outcome,
            trace: None,
            effects: Vec::new(),
            writes: Vec::new(),
            hits: Vec::new(),
            logs,
            requests: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }
}

/// Runs a job in virtual time, in this process. What has to replay to the bit runs one job a process.
pub fn run_simulated(job: &Job) -> RunResult {
    let wall = Clock::wall();
    let started = wall.now();
    let ran = sim::run(job);
    finish(job, ran, between(started, wall.now()))
}

/// What jobs with control planes of their own share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Servers that earlier jobs of this worker used.
    pub spares: Arc<Spares>,
    /// How many worlds may come up at the same time, which takes all of a core: else a machine that starts many at once
    /// starves those that run.
    pub starts: Arc<Semaphore>,
}

/// Runs a job on the wall clock, with a control plane that is its own while it runs.
pub async fn run_on_wall_clock(job: &Job, shared: &Shared) -> RunResult {
    let run = Box::pin(async {
        let timeouts = match job.stage {
            StageKind::Envtest => Timeouts::on_etcd(),
            _ if job.target == Some(StageKind::Envtest) => Timeouts::on_etcd(),
            _ => Timeouts::short(),
        };
        // Never closed.
        let start = shared.starts.clone().acquire_owned().await.ok();
        match Box::pin(planes(job, &timeouts, &shared.spares)).await {
            Ok(planes) => Box::pin(processes::run(job, planes, timeouts, start)).await,
            Err(reason) => Ran::new(Err(reason), BTreeMap::new()),
        }
    });
    timed(job, run).await
}

/// The control planes of a job: one that is both clusters, or one for each.
async fn planes(job: &Job, timeouts: &Timeouts, spares: &Arc<Spares>) -> Result<Planes, String> {
    let plane = |stage, role| Plane::start(stage, role, NAMESPACE, job.plan.seed, timeouts, spares);
    let Some(target) = job.target else {
        return Ok(Planes::one(plane(job.stage, Role::Both).await?));
    };
    let control = plane(job.stage, Role::Control).await?;
    Ok(Planes::two(control, plane(target, Role::Target).await?))
}

/// Makes a result of what a stage hands back, and writes the report of a run that failed.
pub async fn timed(job: &Job, run: impl Future<Output = Ran>) -> RunResult {
    let (wall, lost) = (Clock::wall(), LostTime::measured());
    let started = wall.now();
    let ran = run.await;
    RunResult {
        lost_seconds: lost.since(started).as_secs_f64(),
        ..finish(job, ran, between(started, wall.now()))
    }
}

/// Whether serde leaves it out.
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// A refusal is a failure of its own, and often the reason of another.
fn note_refusals(result: &mut RunResult, refused: &BTreeSet<String>) {
    if refused.is_empty() {
        return;
    }
    let list: Vec<&str> = refused.iter().map(String::as_str).collect();
    let words = format!(
        "the API server refused {}: deploy/rbac does not allow it",
        list.join(", ")
    );
    match &mut result.failure {
        Some(failure) => failure.reason += &format!(" ({words})"),
        None => {
            result.failure = Some(FailureResult {
                after_seconds: result.stage_seconds,
                step: 0,
                invariant: None,
                expectation: false,
                reason: words,
            });
        }
    }
}

fn finish(job: &Job, ran: Ran, wall: Duration) -> RunResult {
    let mut result = RunResult::broken(job, String::new());
    result.failure = match &ran.outcome {
        Ok(outcome) => outcome.failure.as_ref().map(|failure| FailureResult {
            after_seconds: failure.after.as_secs_f64(),
            step: failure.step,
            invariant: failure.invariant.map(str::to_owned),
            expectation: failure.expectation,
            reason: failure.reason.clone(),
        }),
        Err(reason) => Some(FailureResult {
            after_seconds: 0.0,
            step: 0,
            invariant: None,
            expectation: false,
            reason: reason.clone(),
        }),
    };
    if let Ok(outcome) = &ran.outcome {
        result.stage_seconds = outcome.lasted.as_secs_f64();
        result.end = outcome.end.clone();
        result.faults = outcome.world.faults.clone();
        result.occurred = Occurred::in_world(&outcome.world);
        if job.narrate || outcome.failure.is_some() {
            result.narrative = outcome.narrative.lines().iter().map(|line| line.what.clone()).collect();
        }
    }
    result.disturbances = job.struck(&ran.hits);
    for struck in result.disturbances.iter().filter(|struck| struck.hits > 0) {
        *result.occurred.faults.entry(struck.kind.clone()).or_default() += struck.hits;
    }
    result.wall_seconds = wall.as_secs_f64();
    result.trace = ran.trace.clone();
    result.effects = ran.effects.clone();
    result.writes = ran.writes.clone();
    result.requests = ran.requests.clone();
    note_refusals(&mut result, &ran.refused);
    if !result.passed() {
        match folder::write(job, &result, &ran) {
            Ok(()) => result.report = Some(job.folder()),
            Err(error) => {
                if let Some(failure) = &mut result.failure {
                    failure.reason += &format!(" (and no report could be written: {error})");
                }
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::engine::Failure;
    use crate::engine::narrative::Narrative;
    use crate::engine::world::WorldState;

    fn outcome(reason: Option<&str>) -> ScenarioOutcome {
        ScenarioOutcome {
            narrative: Narrative::new(Timestamp::UNIX_EPOCH),
            world: WorldState::default(),
            end: BTreeMap::new(),
            failure: reason.map(|reason| Failure {
                after: Duration::ZERO,
                step: 1,
                invariant: None,
                expectation: true,
                reason: reason.to_owned(),
            }),
            lasted: Duration::ZERO,
        }
    }

    #[rstest]
    #[case::both_well(Ok(outcome(None)), Ok(()), None)]
    #[case::only_the_run(Ok(outcome(Some("no machine"))), Ok(()), Some("no machine"))]
    #[case::only_the_tidy_up(Ok(outcome(None)), Err("a Node is left"), Some("a Node is left"))]
    #[case::both(
        Ok(outcome(Some("no machine"))),
        Err("a Node is left"),
        Some("no machine; then a Node is left")
    )]
    #[case::one_that_did_not_begin(Err("no pod".to_owned()), Err("a Node is left"), Some("no pod; then a Node is left"))]
    fn a_tidy_up_that_fails_is_said_behind_why_the_run_failed(
        #[case] outcome: Result<ScenarioOutcome, String>,
        #[case] tidied: Result<(), &str>,
        #[case] said: Option<&str>,
    ) {
        let ran = Ran::new(outcome, BTreeMap::new()).tidied(tidied.map_err(str::to_owned));
        let reason = match ran.outcome {
            Ok(outcome) => outcome.failure.map(|failure| failure.reason),
            Err(reason) => Some(reason),
        };
        assert_eq!(reason.as_deref(), said);
    }
}
