//! The plan of a run as data: a scenario, a seed, what disturbs it, and its limits. Everything that a run in virtual
//! time depends on is in it, so the same plan gives the same trace.
//!
//! What lives here: the data, its file form (YAML or JSON) and its checks. What must not: who makes plans (`campaign`,
//! `shrink`) and how a stage carries one out.

mod cloud_fault;
mod disturbance;
mod hits;

use std::path::Path;
use std::time::Duration;

use fakecloud_api::Deprecations;
use mcm_api::GoDuration;
use serde::{Deserialize, Serialize};

pub(crate) use self::cloud_fault::{FAULT, TIMES};
pub use self::disturbance::{Disturbance, KubeletFault, Lag, Pause, VmFault};
pub use self::hits::DisturbanceHits;
use crate::file::{self, FileError};
use crate::{Scenario, StageKind};

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// What is disturbed.
    pub scenario: Scenario,
    /// The seed of all randomness.
    pub seed: u64,
    /// A planted defect of mcm (builds with mutants).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// What disturbs it; the order means nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// When it is ended because it runs away.
    #[serde(default)]
    pub limits: Limits,
}

/// How far a run may go. A run that goes further runs away, and fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// The most virtual time.
    pub virtual_time: GoDuration,
    /// The most entries in its trace.
    pub events: u64,
    /// The most time by the wall clock; the process of the run is ended then.
    pub wall_time: GoDuration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            virtual_time: GoDuration(Duration::from_hours(24 * 60)),
            events: 50_000_000,
            wall_time: GoDuration(Duration::from_mins(10)),
        }
    }
}

/// A plan as a file has it: its scenario is written out, or named.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    base: Option<String>,
    #[serde(default)]
    scenario: Option<Scenario>,
    #[serde(default = "first_seed")]
    seed: u64,
    #[serde(default)]
    mutant: Option<String>,
    #[serde(default)]
    disturbances: Vec<Disturbance>,
    #[serde(default)]
    limits: Limits,
}

fn first_seed() -> u64 {
    1
}

/// Whether these may disturb a controller at any time. A crash does so for a moment, and invariants know it.
pub fn is_disturbing(disturbances: &[Disturbance]) -> bool {
    let lasts = |disturbance: &Disturbance| !matches!(disturbance, Disturbance::Crash(_));
    disturbances.iter().any(lasts)
}

impl Plan {
    /// An undisturbed run.
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        Self {
            scenario,
            seed,
            mutant: None,
            disturbances: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Reads a file, and notes its old spellings; `named` are the scenarios that it may name.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn read(path: &Path, named: &[Scenario], deprecations: &mut Deprecations) -> Result<Self, FileError> {
        let (text, shown) = file::text(path)?;
        let plan = Self::from_yaml(&text, &shown, named)?;
        file::collect_deprecations(&text, &shown, deprecations);
        Ok(plan)
    }

    /// Reads YAML, of which JSON is a part; `origin` names it in errors.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn from_yaml(text: &str, origin: &str, named: &[Scenario]) -> Result<Self, FileError> {
        let file: File = file::parse(text, origin)?;
        let wrong = |field: &str, message: String| FileError::field(origin, field, message);
        let scenario = match (file.base, file.scenario) {
            (None, Some(scenario)) => scenario,
            (Some(base), None) => {
                let known = named.iter().find(|scenario| scenario.name == base);
                let unknown = || {
                    wrong(
                        "base",
                        format!("there is no scenario {base:?}; `drydock list` lists them"),
                    )
                };
                known.cloned().ok_or_else(unknown)?
            }
            (Some(_), Some(_)) => return Err(wrong("base", "name a scenario or write it out, not both".to_owned())),
            (None, None) => {
                let message = "name the scenario that is disturbed, or write it out under `scenario`";
                return Err(wrong("base", message.to_owned()));
            }
        };
        let plan = Self {
            scenario,
            seed: file.seed,
            mutant: file.mutant,
            disturbances: file.disturbances,
            limits: file.limits,
        };
        plan.validate().map_err(|(field, message)| wrong(&field, message))?;
        Ok(plan)
    }

    /// The first disturbance, by its number from 0, that the stage cannot carry out, and why.
    pub fn why_not_on(&self, stage: StageKind) -> Option<(usize, &'static str)> {
        let reasons = self
            .disturbances
            .iter()
            .map(|disturbance| disturbance.why_not_on(stage));
        reasons.enumerate().find_map(|(number, reason)| Some((number, reason?)))
    }

    /// The plan as a YAML file.
    ///
    /// # Errors
    /// When a value has no YAML form, which a valid plan always has.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        serde_saphyr::to_string(self)
    }

    /// Checks what types alone do not: the field, and what is wrong with it.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn validate(&self) -> Result<(), (String, String)> {
        self.scenario
            .validate()
            .map_err(|error| ("scenario".to_owned(), error.to_string()))?;
        for (index, disturbance) in self.disturbances.iter().enumerate() {
            disturbance
                .validate()
                .map_err(|(field, message)| (format!("disturbances[{index}].{field}"), message))?;
            let rule = disturbance.rule();
            if rule.is_some() && self.disturbances[..index].iter().any(|earlier| earlier.rule() == rule) {
                let message = format!(
                    "there is a rule {:?} already: give each a name of its own",
                    rule.unwrap_or_default()
                );
                return Err((format!("disturbances[{index}].name"), message));
            }
        }
        if self.limits.virtual_time.0.is_zero() || self.limits.events == 0 {
            return Err((
                "limits".to_owned(),
                "a limit of zero leaves no room for anything".to_owned(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
