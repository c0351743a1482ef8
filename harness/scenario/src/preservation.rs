//! The settings of mcm for preservation that a world may change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value of mcm's `--preservation-dialect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PreservationDialect {
    /// `Running:Preserved` and `Failed:Preserved` are phases.
    #[default]
    V2,
    /// Phases are those of upstream.
    Upstream,
    /// Nothing is preserved, and existing preservations end.
    Off,
}

/// A value of mcm's `--preserve-fencing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreserveFencing {
    /// The VM of a preserved machine whose node does not answer runs on.
    #[default]
    None,
    /// The driver stops it if pods that must not run twice are on it.
    StopVm,
}
