//! Ends or starts a process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DisturbanceChange, Request, StepDefinition, Targets, verb};
use crate::process::Process;

/// Ends or starts a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessStep {
    /// The process.
    pub name: Process,
    /// The action.
    #[serde(rename = "do")]
    pub action: ProcessAction,
}

/// An action on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProcessAction {
    /// Kills it (SIGKILL).
    Kill,
    /// Starts it with empty caches.
    Start,
    /// Kills and starts it.
    Restart,
    /// Kills the process that holds the Lease; a supervisor, if there is one, starts it again.
    KillLeader,
    /// Restarts all processes one after another (SIGTERM), each when its predecessor is up.
    RollingRestart,
}

impl StepDefinition for ProcessStep {
    fn description(&self) -> String {
        match self.action {
            ProcessAction::KillLeader => format!("kill the leading {}", self.name),
            ProcessAction::RollingRestart => format!("rolling restart of {}", self.name),
            action => format!("{} {}", verb(action), self.name),
        }
    }

    fn request(&self) -> Request<'_> {
        Request::Process(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&self.name.to_string())
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        match self.action {
            ProcessAction::Kill => Some(DisturbanceChange::ProcessEnds(self.name)),
            ProcessAction::Start | ProcessAction::Restart => Some(DisturbanceChange::ProcessStarts(self.name)),
            ProcessAction::KillLeader | ProcessAction::RollingRestart => None,
        }
    }
}
