//! The result of a job. Processes exchange results as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::plan::DisturbanceHits;
use crate::signature::{Cause, Signature};
use crate::{Occurred, StageKind};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// The scenario's name.
    pub scenario: String,
    /// Its stage.
    pub stage: StageKind,
    /// The stage of its nodes; absent: the same stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StageKind>,
    /// Its seed.
    pub seed: u64,
    /// The defect that was switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// The command that replaced mcm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Its disturbances with their hits, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<DisturbanceHits>,
    /// Why it failed; absent: it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureResult>,
    /// Duration by the stage's clock.
    pub stage_seconds: f64,
    /// Duration by the wall clock.
    pub wall_seconds: f64,
    /// Time that the busy host took from the process, by which deadlines were extended; on a wall clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_seconds: f64,
    /// The trace of a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// The final state, without what differs between two clean runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end: BTreeMap<String, String>,
    /// Number of hits by fault rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    /// Counts of what occurred, by kind.
    #[serde(default)]
    pub occurred: Occurred,
    /// The narrative without times, of a failed run or if the job requests it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrative: Vec<String>,
    /// Effects of mcm, in `sim`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// Writes and cloud calls of mcm, if the job requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
    /// Accesses of mcm and fakecloud to the API server, if the harness runs it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requests: BTreeSet<Access>,
    /// The report folder of a failed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// The folder with the record of a passed run, if the job requests one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// The command line that repeats the run.
    pub replay: String,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureResult {
    /// Time since the scenario's start by the stage's clock.
    pub after_seconds: f64,
    /// Number of the step, from 1; 0: before the first step.
    pub step: usize,
    /// The violated invariant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<String>,
    /// Whether an expectation of the scenario was missed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expectation: bool,
    /// The cause in one sentence.
    pub reason: String,
    /// The cause without names, numbers and times.
    #[serde(default)]
    pub signature: Signature,
}

impl FailureResult {
    /// A failure outside of a step, at the end of a run of that duration.
    pub fn new(cause: Cause, after_seconds: f64, reason: String) -> Self {
        let invariant = match &cause {
            Cause::Invariant(name) => Some(name.clone()),
            _ => None,
        };
        Self {
            after_seconds,
            step: 0,
            invariant,
            expectation: cause == Cause::Expectation,
            signature: Signature::of_text(cause, &reason),
            reason,
        }
    }
}

/// Identifies a simulated run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceSummary {
    /// SHA-256 over all entries.
    pub hash: String,
    /// Number of entries.
    pub entries: u64,
}

impl RunResult {
    /// The stage and the stage of the nodes, for messages.
    pub fn place(&self) -> String {
        match self.target {
            Some(target) => format!("{} with {target}", self.stage),
            None => self.stage.to_string(),
        }
    }

    /// Whether every expectation was met and no invariant is violated.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The result of a job that failed before its scenario started.
    pub fn broken(job: &Job, reason: String) -> Self {
        Self {
            scenario: job.plan.scenario.name.clone(),
            stage: job.stage,
            target: job.target,
            seed: job.plan.seed,
            mutant: job.plan.mutant.clone(),
            controller: job.controller.clone(),
            disturbances: job.hits(&[]),
            failure: Some(FailureResult::new(Cause::Run, 0.0, reason)),
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
            record: None,
            replay: job.replay(&job.reports.join(job.report_name())),
        }
    }
}

/// Whether serde skips the field.
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// An access of a service account, in the form of an RBAC rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// The service account's name.
    pub account: String,
    /// For example `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The API group; empty: core.
    pub group: String,
    /// The resource, with its subresource after a slash.
    pub resource: String,
    /// The namespace; absent: the whole cluster, or namespaces that are not known in advance.
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

/// A write to an object or a cloud call for a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// The object: `shop/machines/m-1`, `nodes/m-1`, `VM of m-1`.
    pub object: String,
    /// For example `PATCH status` or `CreateMachine`, and the body.
    pub what: String,
}

/// An effect of a process on the outside world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number, from 1, over all incarnations of all processes of a kind.
    pub number: u64,
    /// The incarnation of the process, from 1.
    pub incarnation: u64,
    /// Its kind.
    pub kind: EffectKind,
    /// For example `PATCH /api/v1/nodes/a` or `CreateMachine`.
    pub description: String,
}

/// The kind of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// A write to the API server: POST, PUT, PATCH or DELETE.
    ApiWrite,
    /// A call of the cloud; reads count, because they may fail and cost quota.
    CloudCall,
}
