//! How a job ended. Results travel between processes as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::plan::DisturbanceHits;
use crate::{Occurred, StageKind};

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
    pub effects: Vec<Effect>,
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
            disturbances: job.hits(&[]),
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

/// Whether serde leaves it out.
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// One thing that a service account did, as a rule of RBAC would have to allow it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// The service account's name.
    pub account: String,
    /// As `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The API group; empty for the core's.
    pub group: String,
    /// The resource, with its subresource after a slash.
    pub resource: String,
    /// In which namespace; absent: in the whole cluster, or in namespaces that nobody knows beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = match self.group.as_str() {
            "" => String::new(),
            group => format!(".{group}"),
        };
        write!(f, "{}: {} {}{group} ", self.account, self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, "in namespace {namespace}"),
            None => f.write_str("in the whole cluster"),
        }
    }
}

/// One thing that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// Of what: `shop/machines/m-1`, `nodes/m-1`, `VM of m-1`.
    pub object: String,
    /// `PATCH status` or `CreateMachine`, and the body.
    pub what: String,
}

/// One effect of a process on the world outside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number, counted from 1 over all incarnations of all processes of a kind.
    pub number: u64,
    /// The incarnation of the process, counted from 1.
    pub incarnation: u64,
    /// Where it went.
    pub kind: EffectKind,
    /// For instance `PATCH /api/v1/nodes/a` or `CreateMachine`.
    pub description: String,
}

/// Where an effect goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// A write to the API server: POST, PUT, PATCH or DELETE.
    ApiWrite,
    /// A call of the cloud, reads included: they may fail, and cost quota.
    CloudCall,
}
