//! Delays the effect of the next creation of a machine's VM.

use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::duration::DurationExpression;

/// The next creation of a machine's VM takes effect later, even if the caller has given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowCreation {
    /// The rule's name, under which reports count its hits.
    pub name: String,
    /// Name of the machine.
    pub machine: String,
    /// The delay.
    pub by: DurationExpression,
}

impl StepDefinition for SlowCreation {
    fn description(&self) -> String {
        format!("delay the next creation of {} by {}", self.machine, self.by)
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
