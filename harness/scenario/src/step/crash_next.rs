//! Kills a process at its next effect, and starts it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, Request, StepDefinition, Targets};
use crate::process::Process;

/// Kills a process at its next effect (an API write or a cloud call) after the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrashNext {
    /// The process.
    pub process: Process,
    /// Before or after the effect.
    pub at: Moment,
    /// Whether the process may have no further effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

impl StepDefinition for CrashNext {
    fn description(&self) -> String {
        format!("crash {} {} its next effect", self.process, self.at)
    }

    fn request(&self) -> Request<'_> {
        Request::CrashNext(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&self.process.to_string())
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
