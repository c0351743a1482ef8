//! Delays the effect of the next creation of a machine's VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::Problem;
use crate::duration::DurationExpression;
use crate::kinds::Kinds;
use crate::names::{NameOf, Names, Reference};

/// The next creation of a machine's VM takes effect later, even if the client has given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowCreation {
    /// The rule's name, under which reports count its hits.
    pub name: String,
    /// Name of the machine.
    pub machine: String,
    /// The delay.
    pub by: DurationExpression,
    /// Whether no VM may be created for the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

impl StepDefinition for SlowCreation {
    fn description(&self) -> String {
        format!("delay the next creation of {} by {}", self.machine, self.by)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::SlowCreation(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("creation of {}", self.machine))
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::begins(&self.name, Some(1)))
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("slowCreation.machine", NameOf::Vm, &self.machine)])
    }

    fn add_names(&self, names: &mut Names) {
        names.add(NameOf::CloudFault, &self.name);
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![("slowCreation.by".to_owned(), &self.by)]
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
