//! Whether a world has health checks, and the settings of mcm that a world may change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PreserveFencing;

/// Where MachineHealthChecks are evaluated. Their definition and roles exist only in worlds that have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HealthChecks {
    /// Nowhere: mcm runs without the controller `machinehealthcheck`.
    #[default]
    Off,
    /// In mcm.
    On,
    /// In mcm, which stops remediation at `maxUnhealthy` itself (`--max-unhealthy-exclusive`).
    Exclusive,
    /// In a separate process with a separate role.
    Separate,
}

/// The settings of mcm that a world may change, for all stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McmSettings {
    /// mcm's fencing of preserved machines.
    pub fencing: PreserveFencing,
    /// Whether mcm evaluates health checks.
    pub health_checks: HealthChecks,
}
