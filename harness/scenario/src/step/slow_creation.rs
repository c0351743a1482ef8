//! Delays the effect of the next creation of a machine's VM.

use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::duration::DurationExpression;

/// The next creation for a machine takes effect later, whether or not anybody still waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowCreation {
    /// The rule's name: reports count its hits under it.
    pub name: String,
    /// Of which machine.
    pub machine: String,
    /// By how much.
    pub by: DurationExpression,
}

impl StepDefinition for SlowCreation {
    fn description(&self) -> String {
        format!("let the next creation of {} take {}", self.machine, self.by)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::SlowCreation(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("creation of {}", self.machine))
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::begins(&self.name, Some(1)))
    }
}
