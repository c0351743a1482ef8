//! A job: a plan and its stage. Processes exchange jobs as JSON.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{Disturbance, DisturbanceHits, Limits, Plan};
use crate::step::{Crash, Process};
use crate::{Scenario, StageKind};

/// Name of the plan file in the report folder of a failed run.
pub const PLAN: &str = "plan.yaml";

/// A run to be performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// The scenario and its disturbances.
    pub plan: Plan,
    /// File of the scenario; absent: it is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Whether the job comes from a plan, so that its scenario cannot be found again by name or file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_plan: bool,
    /// The stage of the run.
    pub stage: StageKind,
    /// The stage of the nodes; absent: the same stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StageKind>,
    /// Whether its result contains the whole narrative even if it passes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrate: bool,
    /// Whether the run iterates once in hash order on purpose, to prove that a trace comparison detects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hash_order: bool,
    /// Whether every Lease renewal and watch renewal is simulated, even where it has no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_renewal: bool,
    /// Whether its result contains the writes of mcm with bodies; in `sim` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes: bool,
    /// The process whose effects its result contains. `None`: in virtual time those of mcm, and otherwise none, because
    /// the requests of a process then have to pass a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Process>,
    /// Command-line arguments of the stage, for the replay command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// A command that replaces mcm; on stages with processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Folder below which the report folder of a failed run is created.
    pub reports: PathBuf,
    /// Folder below which the record and the report of a run that passes are written; absent: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Whether its report folder replaces the previous one of the same run, because the run is expected to fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected_to_fail: bool,
}

impl Job {
    /// A job without disturbances.
    pub fn new(scenario: Scenario, stage: StageKind, seed: u64) -> Self {
        Self {
            from_plan: false,
            ..Self::of(Plan::new(scenario, seed), stage)
        }
    }

    /// A job that runs a plan on a stage.
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
            effects: None,
            on: String::new(),
            controller: None,
            reports: PathBuf::from(".drydock/reports"),
            record: None,
            expected_to_fail: false,
        }
    }

    /// The command line that repeats the run: with names and numbers if they suffice, otherwise with the plan in the
    /// folder `report`.
    pub fn replay(&self, report: &Path) -> String {
        let crash = match self.plan.disturbances.as_slice() {
            [] => None,
            [Disturbance::Crash(crash)] if crash.process == Process::Mcm => Some(*crash),
            _ => return self.replay_of_plan(report),
        };
        if self.from_plan || self.plan.limits != Limits::default() {
            return self.replay_of_plan(report);
        }
        let mut line = format!("drydock run {}", self.scenario_argument());
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
        line + &self.controller_flag()
    }

    /// Its disturbances with their hits; disturbances beyond the end of `hits` have none.
    pub fn hits(&self, hits: &[u64]) -> Vec<DisturbanceHits> {
        let hits = hits.iter().copied().chain(std::iter::repeat(0));
        let with_hits = |(disturbance, hits): (&Disturbance, u64)| DisturbanceHits {
            what: disturbance.to_string(),
            kind: disturbance.kind(),
            hits,
        };
        self.plan.disturbances.iter().zip(hits).map(with_hits).collect()
    }

    fn replay_of_plan(&self, report: &Path) -> String {
        let plan = report.join(PLAN);
        let mut line = format!("drydock run --plan {}", plan.display());
        if self.stage != StageKind::Sim {
            line += &format!(" --stage {}{}", self.stage, self.on);
        }
        line + &self.target_flag() + &self.controller_flag()
    }

    /// The argument that names its scenario: `--file FILE`, or the name.
    pub fn scenario_argument(&self) -> String {
        match &self.file {
            Some(file) => format!("--file {}", file.display()),
            None => self.plan.scenario.name.clone(),
        }
    }

    /// ` --controller COMMAND`, quoted for a shell; empty for mcm.
    pub fn controller_flag(&self) -> String {
        let flag = |command: &String| format!(" --controller '{}'", command.replace('\'', r"'\''"));
        self.controller.as_ref().map_or_else(String::new, flag)
    }

    fn target_flag(&self) -> String {
        self.target
            .map_or_else(String::new, |target| format!(" --target-stage {target}"))
    }

    /// The name of the first report folder of this job. Further ones have a point and a number after it.
    pub fn report_name(&self) -> String {
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
        name
    }
}
