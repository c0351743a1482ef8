//! A fault at a fixed time, in the form of a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::step::Request;
use crate::{DurationExpression, Problem, Step};

/// A step of a scenario that is performed at a fixed time, whatever the scenario does then. It must be a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimedStep {
    /// Time of the step.
    pub at: DurationExpression,
    /// The number of recorded events after which the step is performed at that time: in virtual time much happens at once.
    /// Absent: as early as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_events: Option<u64>,
    /// The step: `inject`, `lift`, `failZone`, `restoreZone`, `vm`, `createVm`, `kubelet`, `slowCreation`, `process`, `crash`,
    /// `crashNext`, `pause`, `apiFault` or `liftApiFault`.
    #[serde(rename = "do")]
    pub step: Step,
}

impl TimedStep {
    /// Checks the step alone. Returns the field below `step`, and the fix.
    pub(super) fn validate(&self) -> Result<(), Problem> {
        let is_fault = matches!(
            self.step.request(),
            Request::Cloud(_)
                | Request::AddApiFault(_)
                | Request::LiftApiFault(_)
                | Request::Process(_)
                | Request::Crash(_)
                | Request::CrashNext(_)
                | Request::Pause(_)
        );
        if !is_fault {
            let problem = format!(
                "{} is no fault: put it among the steps of the scenario",
                self.step.word()
            );
            return Err(("do".to_owned(), problem));
        }
        self.step
            .validate()
            .map_err(|(field, problem)| (format!("do.{field}"), problem))
    }
}
