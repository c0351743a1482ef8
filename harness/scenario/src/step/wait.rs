//! Lets time pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition};
use crate::duration::DurationExpression;

/// The duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Wait(pub DurationExpression);

impl StepDefinition for Wait {
    fn description(&self) -> String {
        format!("wait {}", self.0)
    }

    fn request(&self) -> Request<'_> {
        Request::Wait(&self.0)
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![("wait".to_owned(), &self.0)]
    }
}
