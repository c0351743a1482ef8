//! Removes all faults, lets the world settle, and then checks that no object is written any more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition};
use crate::duration::DurationExpression;

/// The end of a scenario: all faults are removed, pending work may finish, and then no object is written any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuietEnd {
    /// How long the world may take to settle.
    pub settles: DurationExpression,
}

impl StepDefinition for QuietEnd {
    fn description(&self) -> String {
        format!("all faults end, and the world settles for at least {}", self.settles)
    }

    fn request(&self) -> Request<'_> {
        Request::QuietEnd(self)
    }
}
