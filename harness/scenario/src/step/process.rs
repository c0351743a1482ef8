//! Ends or starts a process.

use serde::{Deserialize, Serialize};

use super::{DisturbanceChange, Request, StepDefinition, Targets, verb};
use crate::process::Process;

/// Ends or starts a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessStep {
    /// Which.
    pub name: Process,
    /// What.
    #[serde(rename = "do")]
    pub action: ProcessAction,
}

/// What can be done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessAction {
    /// Ended without notice (SIGKILL).
    Kill,
    /// Started with empty caches.
    Start,
    /// Both.
    Restart,
    /// Of several, the one that holds the Lease is ended without notice; where something supervises it, that starts it
    /// again.
    KillLeader,
    /// One after another is asked to end (SIGTERM) and started again, each when the one before is up.
    RollingRestart,
}

impl StepDefinition for ProcessStep {
    fn description(&self) -> String {
        match self.action {
            ProcessAction::KillLeader => format!("kill the {} that leads", self.name),
            ProcessAction::RollingRestart => format!("restart every {}, one after another", self.name),
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
