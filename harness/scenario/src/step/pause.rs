//! Pauses a process for a while.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::duration::DurationExpression;
use crate::process::Process;

/// A process is paused, as between SIGSTOP and SIGCONT: of several processes, the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    /// The process.
    pub process: Process,
    /// Duration of the pause.
    pub time: DurationExpression,
}

impl StepDefinition for Pause {
    fn description(&self) -> String {
        format!("pause the leading {} for {}", self.process, self.time)
    }

    fn request(&self) -> Request<'_> {
        Request::Pause(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&self.process.to_string())
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![("pause.time".to_owned(), &self.time)]
    }
}
