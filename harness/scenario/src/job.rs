//! A job: a plan and where it runs. Jobs travel between processes as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{Disturbance, DisturbanceHits, Limits, Plan};
use crate::step::{Crash, Process};
use crate::{Scenario, StageKind};

/// The name of the plan in the folder that a failed run leaves.
pub const PLAN: &str = "plan.yaml";

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
    pub fn hits(&self, hits: &[u64]) -> Vec<DisturbanceHits> {
        let hits = hits.iter().copied().chain(std::iter::repeat(0));
        let struck = |(disturbance, hits): (&Disturbance, u64)| DisturbanceHits {
            what: disturbance.to_string(),
            kind: disturbance.kind(),
            hits,
        };
        self.plan.disturbances.iter().zip(hits).map(struck).collect()
    }

    fn replay_of_plan(&self) -> String {
        let plan = self.folder().join(PLAN);
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
