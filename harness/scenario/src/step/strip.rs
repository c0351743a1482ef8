//! Removes a label from new machines.

use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::duration::DurationExpression;

/// Somebody takes a label from each new machine that has it, a second after the machine was made. The step lasts as long as
/// they do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Strip {
    /// The label's key.
    pub label: String,
    /// Its value.
    pub value: String,
    /// How long they go on.
    pub lasts: DurationExpression,
}

impl StepDefinition for Strip {
    fn description(&self) -> String {
        format!(
            "take the label {} from each new machine, for {}",
            self.label, self.lasts
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Strip(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("label {} of machines", self.label))
    }
}
