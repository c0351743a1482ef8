//! Hits of a plan's disturbances.

use serde::{Deserialize, Serialize};

/// A disturbance and its number of hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisturbanceHits {
    /// Description in one line.
    pub what: String,
    /// Kind of the fault.
    pub kind: String,
    /// Number of hits.
    pub hits: u64,
}
