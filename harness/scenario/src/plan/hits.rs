//! How often the disturbances of a plan had an effect.

use serde::{Deserialize, Serialize};

/// A disturbance, and how often it struck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisturbanceHits {
    /// In one line.
    pub what: String,
    /// What kind of fault it is.
    pub kind: String,
    /// How often it struck.
    pub hits: u64,
}
