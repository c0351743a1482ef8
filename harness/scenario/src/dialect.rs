//! The dialects of preservation that mcm knows.

use serde::{Deserialize, Serialize};

/// A value of mcm's `--preservation-dialect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreservationDialect {
    /// `Running:Preserved` and `Failed:Preserved` are phases.
    #[default]
    V2,
    /// Phases stay as upstream has them.
    Upstream,
    /// Nothing is preserved, and existing preservations end.
    Off,
}
