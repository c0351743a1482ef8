//! The plan of a run as data: a scenario, a seed, disturbances, and limits. It contains everything that a run in
//! virtual time depends on, so the same plan gives the same trace.
//!
//! This module holds the data, its file form (YAML or JSON) and its checks. `campaign` and `shrink` create plans, and
//! stages execute them.

mod cloud_fault;
mod disturbance;
mod hits;
mod timed;

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use fakecloud_api::{Deprecations, DurationText};
use mcm_api::GoDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

pub use self::disturbance::{Disturbance, KubeletFault, Lag, Pause, VmFault};
pub use self::hits::DisturbanceHits;
pub use self::timed::TimedStep;
use crate::check::Checker;
use crate::closest::suggestion;
use crate::file::{self, FileError, Source};
use crate::{Problem, Scenario, StageKind};

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The scenario of the run.
    pub scenario: Scenario,
    /// The seed of all randomness.
    pub seed: u64,
    /// A defect of mcm that is switched on (builds with defects only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// Disturbances; their order does not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// Whether steps and disturbances may have no effect, as in random plans. A plan with disturbances permits it for
    /// steps in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
    /// When the run is stopped as runaway.
    #[serde(default)]
    pub limits: Limits,
}

/// Limits of a run. A run that exceeds one is a runaway and fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum of virtual time.
    #[schemars(with = "DurationText")]
    pub virtual_time: GoDuration,
    /// Maximum number of trace entries.
    pub events: u64,
    /// Maximum of wall-clock time, after which the process of the run is killed.
    #[schemars(with = "DurationText")]
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

/// A plan: a scenario, a seed, and disturbances.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Plan")]
struct File {
    /// Name of a built-in scenario, or a YAML file with one, relative to the plan; absent: `scenario` contains one.
    #[serde(default)]
    base: Option<String>,
    /// The scenario; absent: `base` names one.
    #[serde(default)]
    scenario: Option<Scenario>,
    /// The seed of all randomness.
    #[serde(default = "first_seed")]
    seed: u64,
    /// A defect of mcm that is switched on (builds with defects only).
    #[serde(default)]
    mutant: Option<String>,
    /// Disturbances; their order does not matter.
    #[serde(default)]
    disturbances: Vec<Disturbance>,
    /// Whether steps and disturbances may have no effect.
    #[serde(default)]
    may_miss: bool,
    /// When the run is stopped as runaway.
    #[serde(default)]
    limits: Limits,
}

/// The schema of its file form.
impl JsonSchema for Plan {
    fn schema_name() -> Cow<'static, str> {
        File::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        File::json_schema(generator)
    }
}

fn first_seed() -> u64 {
    1
}

/// Whether the base of a plan is a file: names of scenarios contain no point.
fn is_file(base: &str) -> bool {
    base.contains('.')
}

/// Whether these disturbances may affect a controller at any time. A crash does so only for a moment, which invariants
/// take into account. Timed steps are performed and taken into account as those of a scenario.
pub fn is_disturbing(disturbances: &[Disturbance]) -> bool {
    let lasts = |disturbance: &Disturbance| !matches!(disturbance, Disturbance::Crash(_) | Disturbance::Step(_));
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
            may_miss: false,
            limits: Limits::default(),
        }
    }

    /// Reads a file, and records its deprecated spellings; `named` are the scenarios that it may reference.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn read(path: &Path, named: &[Scenario], deprecations: &mut Deprecations) -> Result<Self, FileError> {
        let (text, shown) = file::text(path)?;
        let plan = Self::parse(&text, &shown, named, path.parent())?;
        file::collect_deprecations(&text, &shown, deprecations);
        Ok(plan)
    }

    /// Reads YAML or JSON; `origin` names it in errors.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn from_yaml(text: &str, origin: &str, named: &[Scenario]) -> Result<Self, FileError> {
        Self::parse(text, origin, named, None)
    }

    /// `folder` contains the files that the scenario names.
    fn parse(text: &str, origin: &str, named: &[Scenario], folder: Option<&Path>) -> Result<Self, FileError> {
        let source = Source { text, origin };
        let file: File = source.parse()?;
        let wrong = |field: &str, message: String| source.invalid((field.to_owned(), message));
        let scenario = match (file.base, file.scenario) {
            (None, Some(mut scenario)) => {
                let read = scenario.read_manifests(folder);
                read.map_err(|(field, message)| wrong(&format!("scenario.{field}"), message))?;
                scenario
            }
            (Some(base), None) if is_file(&base) => {
                let Some(folder) = folder else {
                    let message = format!("{base:?} cannot be read: the plan itself is not read from a file");
                    return Err(wrong("base", message));
                };
                let path = folder.join(base);
                let (text, shown) = file::text(&path)?;
                Scenario::parse(&text, &shown, path.parent())?
            }
            (Some(base), None) => {
                let known = named.iter().find(|scenario| scenario.name == base);
                let unknown = || {
                    let names = named.iter().map(|scenario| scenario.name.as_str());
                    let message = format!(
                        "there is no scenario {base:?}; {} (`drydock list` lists all)",
                        suggestion(&base, names)
                    );
                    wrong("base", message)
                };
                known.cloned().ok_or_else(unknown)?
            }
            (Some(_), Some(_)) => return Err(wrong("base", "set either `base` or `scenario`".to_owned())),
            (None, None) => {
                let message = "set the name or the file of the scenario, or define it in `scenario`";
                return Err(wrong("base", message.to_owned()));
            }
        };
        let plan = Self {
            scenario,
            seed: file.seed,
            mutant: file.mutant,
            disturbances: file.disturbances,
            may_miss: file.may_miss,
            limits: file.limits,
        };
        plan.validate().map_err(|problem| source.invalid(problem))?;
        Ok(plan)
    }

    /// Index of the first disturbance that the stage cannot execute, and the reason.
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

    /// Checks rules that the types do not express. Returns the field and the error.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate(&self) -> Result<(), (String, String)> {
        let in_scenario = |(field, message): Problem| (format!("scenario.{field}"), message);
        self.scenario.check_fields().map_err(in_scenario)?;
        let mut checker = Checker::new(&self.scenario);
        for disturbance in &self.disturbances {
            disturbance.add_names(&mut checker.names);
        }
        checker.check().map_err(in_scenario)?;
        for (index, disturbance) in self.disturbances.iter().enumerate() {
            let at = |(field, message): Problem| (format!("disturbances[{index}].{field}"), message);
            disturbance.validate().map_err(at)?;
            checker
                .check_references(&disturbance.references(&checker.names.kinds).map_err(at)?)
                .map_err(at)?;
            let rule = disturbance.rule();
            if rule.is_some() && self.disturbances[..index].iter().any(|earlier| earlier.rule() == rule) {
                let message = format!(
                    "another rule has the name {:?}: rule names must be unique",
                    rule.unwrap_or_default()
                );
                let field = match disturbance {
                    Disturbance::Api(_) => "api.name",
                    Disturbance::Step(_) => "step.do",
                    _ => "cloud.name",
                };
                return Err((format!("disturbances[{index}].{field}"), message));
            }
        }
        if self.limits.virtual_time.0.is_zero() || self.limits.events == 0 {
            return Err(("limits".to_owned(), "limits must be above zero".to_owned()));
        }
        Ok(())
    }

    /// Whether the scenario's steps may have no effect: a disturbance may prevent it.
    pub fn steps_may_miss(&self) -> bool {
        self.may_miss || !self.disturbances.is_empty()
    }

    /// Whether a disturbance may have no effect.
    pub fn may_disturbance_miss(&self, disturbance: &Disturbance) -> bool {
        self.may_miss
            || match disturbance {
                Disturbance::Crash(crash) => crash.may_miss,
                Disturbance::Step(timed) => timed.step.may_miss(),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests;
