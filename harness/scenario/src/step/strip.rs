//! Removes a label from new machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::duration::DurationExpression;

/// Removes a label from each new machine that has it, a second after its creation. The step lasts for `lasts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Strip {
    /// The label's key.
    pub label: String,
    /// Its value.
    pub value: String,
    /// Duration of the step.
    pub lasts: DurationExpression,
    /// Whether no machine may have the label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

impl StepDefinition for Strip {
    fn description(&self) -> String {
        format!(
            "remove the label {} from each new machine, for {}",
            self.label, self.lasts
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Strip(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("label {} of machines", self.label))
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![("strip.lasts".to_owned(), &self.lasts)]
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
