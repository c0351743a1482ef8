//! Kills a process at one of its effects, counted from its start, and starts it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::Problem;
use crate::process::Process;

/// Kills a process at one of its effects (an API write or a cloud call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Crash {
    /// The process.
    pub process: Process,
    /// Before or after the effect.
    pub at: Moment,
    /// Number of the effect, from 1 since the first start; with several processes, over all of them.
    pub effect: u64,
    /// Whether the process may have fewer effects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

/// Before or after an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    /// The effect does not happen.
    Before,
    /// The effect happens, and its response is lost.
    After,
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

impl StepDefinition for Crash {
    fn description(&self) -> String {
        format!("crash {} {} effect {}", self.process, self.at, self.effect)
    }

    fn request(&self) -> Request<'_> {
        Request::Crash(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&self.process.to_string())
    }

    fn validate(&self) -> Result<(), Problem> {
        match self.effect {
            0 => Err(("crash.effect".to_owned(), "effects are counted from 1".to_owned())),
            _ => Ok(()),
        }
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
