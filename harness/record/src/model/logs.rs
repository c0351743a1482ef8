//! The logs of processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Micros;

/// The log of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// The name of its file, without the extension.
    pub name: String,
    /// Its lines, in their order.
    pub lines: Vec<LogLine>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Its time; of a line without one, that of the line before it; of a line before the start of the scenario, zero.
    pub at: Micros,
    /// Its text without the time.
    pub text: String,
}
