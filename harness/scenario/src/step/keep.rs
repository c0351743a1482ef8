//! Changes the number of machines of the keeper.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition};

/// The new number of machines of the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keep {
    /// The number.
    pub replicas: u32,
}

impl StepDefinition for Keep {
    fn description(&self) -> String {
        format!("keep {} machines", self.replicas)
    }

    fn request(&self) -> Request<'_> {
        Request::Keep(self.replicas)
    }
}
