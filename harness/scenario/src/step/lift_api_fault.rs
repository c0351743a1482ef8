//! Removes a fault rule of the API server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DisturbanceChange, Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// The name of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LiftApiFault(pub String);

impl StepDefinition for LiftApiFault {
    fn description(&self) -> String {
        format!("lift API fault {}", self.0)
    }

    fn request(&self) -> Request<'_> {
        Request::LiftApiFault(&self.0)
    }

    fn targets(&self) -> Targets {
        Targets::fault("api")
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::ends(&self.0))
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("liftApiFault", NameOf::ApiFault, &self.0)])
    }
}
