//! Removes a fault rule of the cloud.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// The name of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Lift(pub String);

impl StepDefinition for Lift {
    fn description(&self) -> String {
        format!("lift fault {}", self.0)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Lift(&self.0))
    }

    fn targets(&self) -> Targets {
        Targets::fault("cloud")
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::ends(&self.0))
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("lift", NameOf::CloudFault, &self.0)])
    }
}
