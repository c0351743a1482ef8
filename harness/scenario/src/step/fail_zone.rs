//! Makes a zone of the cloud fail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets, verb};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// A zone of the cloud fails until it is restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailZone {
    /// The zone's name.
    pub zone: String,
    /// What fails.
    pub failure: ZoneFailure,
}

/// The failure of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ZoneFailure {
    /// Calls for its VMs fail; the VMs run.
    Api,
    /// Its VMs stop and no VM boots; calls are answered.
    Compute,
    /// Both.
    Both,
}

/// The rule name of a failed zone.
pub(super) fn rule_of_zone(zone: &str) -> String {
    format!("zone {zone}")
}

impl StepDefinition for FailZone {
    fn description(&self) -> String {
        format!("fail zone {} ({})", self.zone, verb(self.failure))
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::FailZone(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("zone {}", self.zone))
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("failZone.zone", NameOf::Zone, &self.zone)])
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        match self.failure {
            // Controllers continue to work while VMs are stopped.
            ZoneFailure::Compute => None,
            ZoneFailure::Api | ZoneFailure::Both => Some(DisturbanceChange::begins(&rule_of_zone(&self.zone), None)),
        }
    }
}
