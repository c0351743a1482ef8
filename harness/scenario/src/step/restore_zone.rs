//! Ends the failure of a zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fail_zone::rule_of_zone;
use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// The name of the zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RestoreZone(pub String);

impl StepDefinition for RestoreZone {
    fn description(&self) -> String {
        format!("restore zone {}", self.0)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::RestoreZone(&self.0))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("zone {}", self.0))
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::ends(&rule_of_zone(&self.0)))
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("restoreZone", NameOf::Zone, &self.0)])
    }
}
