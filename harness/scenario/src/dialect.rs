//! The preservation dialects of mcm.

use serde::{Deserialize, Serialize};

/// A value of mcm's `--preservation-dialect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
