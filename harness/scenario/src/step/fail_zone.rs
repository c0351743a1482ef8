//! Makes a zone of the cloud fail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets, verb};
use crate::Problem;
use crate::kinds::Kinds;
use crate::latency::Latency;
use crate::names::{NameOf, Reference};

/// A zone of the cloud fails until it is restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailZone {
    /// The zone's name.
    pub zone: String,
    /// What fails.
    pub failure: ZoneFailure,
    /// Of `brownOut`: how many of 100 calls fail; default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<u32>,
    /// Of `brownOut`: how long the replies to the other calls take; default: 1s-10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
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
    /// Some calls for its VMs fail, the others are slow; the VMs run.
    BrownOut,
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

    fn validate(&self) -> Result<(), Problem> {
        let is_given = [
            ("errorPercent", self.error_percent.is_some()),
            ("latency", self.latency.is_some()),
        ];
        let given = is_given.into_iter().find(|(_, is_given)| *is_given);
        if let (Some((field, _)), true) = (given, self.failure != ZoneFailure::BrownOut) {
            let message = "only `failure: brownOut` has it: leave it out".to_owned();
            return Err((format!("failZone.{field}"), message));
        }
        match self.error_percent {
            Some(percent) if !(1..=100).contains(&percent) => {
                let message = format!("is {percent}: write 1 to 100");
                Err(("failZone.errorPercent".to_owned(), message))
            }
            _ => Ok(()),
        }
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("failZone.zone", NameOf::Zone, &self.zone)])
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        match self.failure {
            // Controllers continue to work while VMs are stopped.
            ZoneFailure::Compute => None,
            ZoneFailure::Api | ZoneFailure::Both | ZoneFailure::BrownOut => {
                Some(DisturbanceChange::begins(&rule_of_zone(&self.zone), None))
            }
        }
    }
}
