//! The model of scenarios, plans, jobs, results and observations.
//!
//! This crate holds plain data with one serialized form (YAML or JSON); the builder and files produce the same values.
//! `harness` performs steps, `judge` evaluates expectations, and `stage` runs the components.

pub mod builder;
mod check;
pub mod closest;
pub mod cloud;
mod document;
pub mod duration;
pub mod expect;
mod field_path;
pub mod file;
pub mod fixtures;
mod health_checks;
pub mod job;
pub mod keeper;
pub mod kinds;
mod latency;
mod length;
pub mod manifest;
mod names;
mod object_reference;
pub mod observation;
pub mod occurred;
pub mod plan;
mod preservation;
mod process;
pub mod result;
mod shortened;
pub mod signature;
mod stage_kind;
pub mod stale;
pub mod step;
pub mod workload;

use std::collections::BTreeSet;
use std::path::Path;

pub use apiserver::faults as api_faults;
pub use fakecloud_api::{Deprecations, FaultRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::document::Position;
pub use self::duration::{DurationExpression, Named, Timeouts};
pub use self::expect::{Condition, Expectation, PhaseChange, Temporal};
pub use self::field_path::value_at;
pub use self::health_checks::{HealthChecks, McmSettings};
pub use self::latency::Latency;
pub use self::manifest::Manifest;
pub use self::names::{UnknownResource, check_resource};
pub use self::object_reference::ObjectReference;
pub use self::occurred::Occurred;
pub use self::preservation::{PreservationDialect, PreserveFencing};
pub use self::shortened::shortened;
pub use self::stage_kind::StageKind;
pub use self::step::Step;
use crate::check::Checker;
use crate::file::{FileError, Source};
use crate::process::Process;

/// Path of an invalid field, and the error with the value and the fix.
pub(crate) type Problem = (String, String);

/// A test: a world, and steps and expectations in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name on the command line: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// One sentence for lists.
    pub about: String,
    /// Stages where it runs; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
    /// Tags that select groups of scenarios.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// The world before the first step.
    #[serde(default)]
    pub world: World,
    /// Steps and expectations, in order.
    pub steps: Vec<Step>,
}

/// Stages where a scenario runs, and why it does not run elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stages {
    /// The stages where it runs.
    pub only: BTreeSet<StageKind>,
    /// Why other stages cannot run it.
    pub because: String,
}

/// The world before the first step. The class `class-a` and its Secret always exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct World {
    /// Behaviour of the cloud.
    pub cloud: Cloud,
    /// Number of mcm processes, of which one leads. On `kind` at least the number in its Deployment.
    #[serde(skip_serializing_if = "is_one")]
    pub replicas: u32,
    /// Number of driver processes that register with every replica of mcm; 0: mcm connects to the driver.
    #[serde(skip_serializing_if = "is_zero")]
    pub drivers: u32,
    /// Number of nodes without a machine, named `node-0` and so on. They join during the first steps.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes: u32,
    /// Whether mcm runs without a target cluster, so that no node joins.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_target: bool,
    /// Namespace of the machines of a second mcm that serves the same cluster; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// Keeps a number of machines independently of the steps; absent: no keeper runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeper: Option<keeper::Keeper>,
    /// Value of mcm's `--preservation-dialect`; other values than its default only on stage `sim`.
    #[serde(skip_serializing_if = "is_default")]
    pub preservation: PreservationDialect,
    /// Value of mcm's `--preserve-fencing`.
    #[serde(skip_serializing_if = "is_default")]
    pub fencing: PreserveFencing,
    /// Where MachineHealthChecks are evaluated.
    #[serde(skip_serializing_if = "is_default")]
    pub health_checks: HealthChecks,
    /// Whether the example remediation controller of fakecloud runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remediation: bool,
    /// Whether nodes have agents that perform in-place updates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agents: bool,
    /// Definitions of kinds, which are served before the first step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crds: Vec<Manifest>,
    /// Objects that exist before the first step, such as the roles of another controller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Manifest>,
    /// Objects that the controller under test creates, so that steps and conditions can name them. Their names are
    /// globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<ObjectReference>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            cloud: Cloud::default(),
            replicas: 1,
            drivers: 0,
            nodes: 0,
            no_target: false,
            neighbour: None,
            keeper: None,
            preservation: PreservationDialect::default(),
            fencing: PreserveFencing::default(),
            health_checks: HealthChecks::default(),
            remediation: false,
            agents: false,
            crds: Vec::new(),
            manifests: Vec::new(),
            creates: Vec::new(),
        }
    }
}

impl World {
    /// The settings of mcm.
    pub fn mcm(&self) -> McmSettings {
        McmSettings {
            fencing: self.fencing,
            health_checks: self.health_checks,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Maximum of mcm processes.
const MAX_REPLICAS: u32 = 10;
/// Maximum of driver processes.
const MAX_DRIVERS: u32 = 10;
/// Maximum of VMs that the cloud creates in one call.
const MAX_NODES: u32 = 10_000;

/// Behaviour of the cloud without injected faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cloud {
    /// From the creation of a VM until it is up.
    pub boot_delay: DurationExpression,
    /// Result of a second creation for the same machine.
    pub duplicate_creates: DuplicateCreates,
    /// Whether a new VM cannot join before it is initialized.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_initialize: bool,
}

impl Default for Cloud {
    fn default() -> Self {
        Self {
            boot_delay: Named::BootDelay.into(),
            duplicate_creates: DuplicateCreates::Two,
            require_initialize: false,
        }
    }
}

/// Result of a second creation for the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DuplicateCreates {
    /// The cloud returns the existing VM.
    One,
    /// A second VM: the cloud has no idempotency tokens.
    Two,
}

impl Scenario {
    /// Reads a YAML file, and records its deprecated spellings.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn read(path: &Path, deprecations: &mut Deprecations) -> Result<Self, FileError> {
        let (text, shown) = file::text(path)?;
        let scenario = Self::parse(&text, &shown, path.parent())?;
        file::collect_deprecations(&text, &shown, deprecations);
        Ok(scenario)
    }

    /// Reads YAML text; `origin` names it in errors.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn from_yaml(text: &str, origin: &str) -> Result<Self, FileError> {
        Self::parse(text, origin, None)
    }

    /// `folder` contains the files that it names.
    fn parse(text: &str, origin: &str, folder: Option<&Path>) -> Result<Self, FileError> {
        let source = Source { text, origin };
        let mut scenario: Self = source.parse()?;
        scenario
            .read_manifests(folder)
            .map_err(|problem| source.invalid(problem))?;
        scenario.check().map_err(|problem| source.invalid(problem))?;
        Ok(scenario)
    }

    /// The scenario as a YAML file.
    ///
    /// # Errors
    /// When a value has no YAML form, which a valid scenario always has.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        serde_saphyr::to_string(self)
    }

    /// Checks rules that the types do not express: see `docs/using/scenarios.md`.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate(&self) -> Result<(), FileError> {
        self.check().map_err(|(field, message)| FileError::Invalid {
            origin: format!("scenario {}", self.name),
            position: None,
            field,
            message,
        })
    }

    /// The first invalid field.
    fn check(&self) -> Result<(), Problem> {
        self.check_fields()?;
        Checker::new(self).check()
    }

    /// Checks rules of single fields.
    pub(crate) fn check_fields(&self) -> Result<(), Problem> {
        let wrong = |field: &str, message: &str| (field.to_owned(), message.to_owned());
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(named) {
            let message = format!("{:?} is not a name: use lower-case letters, digits, - and _", self.name);
            return Err(wrong("name", &message));
        }
        if self.steps.is_empty() {
            return Err(wrong("steps", "a scenario needs at least one step"));
        }
        if self.stages.as_ref().is_some_and(|stages| stages.only.is_empty()) {
            return Err(wrong("stages.only", "name at least one stage, or omit `stages`"));
        }
        if self
            .stages
            .as_ref()
            .is_some_and(|stages| stages.because.trim().is_empty())
        {
            return Err(wrong("stages.because", "state why the other stages cannot run it"));
        }
        if !(1..=MAX_REPLICAS).contains(&self.world.replicas) {
            return Err(wrong(
                "world.replicas",
                "must be from 1 to 10; to run a scenario without mcm, kill the process",
            ));
        }
        if self.world.drivers > MAX_DRIVERS {
            return Err(wrong("world.drivers", "must be from 0 to 10"));
        }
        self.check_processes()
            .map_err(|(field, message)| wrong(field, message))?;
        if self.world.nodes > MAX_NODES {
            return Err(wrong("world.nodes", "the cloud creates at most 10000 nodes at once"));
        }
        let keeps = |step: &Step| matches!(step, Step::Keep(_));
        if self.world.keeper.is_none() && self.steps.iter().any(keeps) {
            return Err(wrong(
                "world.keeper",
                "a step `keep` needs a keeper: add `keeper` to the world",
            ));
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.validate()
                .map_err(|(field, message)| wrong(&format!("steps[{index}].{field}"), &message))?;
        }
        Ok(())
    }

    /// Checks that the world has the processes on which steps act.
    fn check_processes(&self) -> Result<(), (&'static str, &'static str)> {
        let missing = self
            .steps
            .iter()
            .filter_map(Step::process)
            .find(|process| !self.has_process(*process));
        match missing {
            Some(Process::Drivers) => Err((
                "world.drivers",
                "a step acts on `drivers`, and the world has none: set the number of drivers",
            )),
            Some(Process::HealthChecks) => Err((
                "world.healthChecks",
                "a step acts on the process `healthChecks`, which the world does not have: set `separate`",
            )),
            Some(Process::Remediation) => Err((
                "world.remediation",
                "a step acts on the process `remediation`, which the world does not have: set `true`",
            )),
            Some(Process::Mcm | Process::Controllers | Process::Fakecloud) | None => Ok(()),
        }
    }

    /// Whether the scenario's world has the process.
    pub fn has_process(&self, process: Process) -> bool {
        match process {
            Process::Mcm | Process::Controllers | Process::Fakecloud => true,
            Process::Drivers => self.world.drivers > 0,
            Process::HealthChecks => self.world.health_checks == HealthChecks::Separate,
            Process::Remediation => self.world.remediation,
        }
    }

    /// Whether it runs on the stage.
    pub fn runs_on(&self, stage: StageKind) -> bool {
        self.why_not_on(stage).is_none()
    }

    /// Why it does not run with its nodes on stage `target`; `None`: it runs.
    pub fn why_not_with_target(&self, stage: StageKind, target: StageKind) -> Option<String> {
        if let Some(reason) = stage.why_no_target(target) {
            return Some(reason);
        }
        if self.world.no_target {
            return Some("its mcm has no target cluster".to_owned());
        }
        if self.world.health_checks == HealthChecks::Separate && stage != StageKind::Sim {
            return Some("the process of health checks has an account in one cluster only".to_owned());
        }
        if let Some(reason) = self.why_not_on(target) {
            return Some(format!("not with nodes on stage {target}: {reason}"));
        }
        let is_api_fault = |step: &Step| matches!(step, Step::ApiFault(_));
        self.steps
            .iter()
            .any(is_api_fault)
            .then(|| "API faults apply to one API server only".to_owned())
    }

    /// Why it does not run on the stage; `None`: it runs.
    pub fn why_not_on(&self, stage: StageKind) -> Option<String> {
        let has = |wanted: fn(&Step) -> bool| self.steps.iter().any(wanted);
        if let Some(reason) = self.steps.iter().find_map(|step| step.why_not_on(stage)) {
            return Some(reason.to_owned());
        }
        if self.world.no_target && stage == StageKind::Kind {
            return Some("mcm has a target cluster on stage kind".to_owned());
        }
        if self.world.drivers > 0 && stage == StageKind::Kind {
            return Some("mcm connects to its driver on stage kind".to_owned());
        }
        if self.world.drivers > 0 && stage != StageKind::Sim && has(Step::is_at_effect) {
            return Some("the effects of mcm are not counted on this stage while drivers register with it".to_owned());
        }
        if stage == StageKind::Kubeconfig
            && let Some(kind) = self.world.cluster_wide_kind()
        {
            return Some(format!(
                "it creates a {kind}, which would remain in the cluster: all namespaces share it"
            ));
        }
        let health_checks = self.world.health_checks;
        if health_checks != HealthChecks::Off && stage == StageKind::Kubeconfig {
            return Some("the definition of MachineHealthCheck would remain in the cluster".to_owned());
        }
        if self.world.neighbour.is_some() && stage != StageKind::Sim {
            return Some("a second mcm runs on stage sim only".to_owned());
        }
        let limits = self.stages.as_ref()?;
        (!limits.only.contains(&stage)).then(|| limits.because.clone())
    }
}

#[cfg(test)]
mod tests;
