//! Makes requests to the API server fail, arrive late, read stale data or lose their responses.

use apiserver::faults::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DisturbanceChange, Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Names, Reference, references_of_api_rule};

/// A rule by which the API server fails; only on stages whose API server the harness runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiFault {
    /// The rule: its name, its match and its action.
    pub rule: Rule,
    /// The client that it affects; absent: the one in the rule's `match.client`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Client>,
    /// Whether the rule may hit no request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

/// A client of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Client {
    /// Every mcm.
    Mcm,
    /// The mcm that leads when the rule is added.
    Leader,
}

impl StepDefinition for ApiFault {
    fn description(&self) -> String {
        format!("add API fault {}", self.rule)
    }

    fn request(&self) -> Request<'_> {
        Request::AddApiFault(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault("api")
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        let times = self.rule.matches.times.map(u64::from);
        Some(DisturbanceChange::begins(&self.rule.name, times))
    }

    fn validate(&self) -> Result<(), Problem> {
        self.rule.check().map_err(|invalid| {
            (
                format!("apiFault.rule.{}", invalid.field),
                format!("{}; {}", invalid.problem, invalid.fix),
            )
        })
    }

    fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        references_of_api_rule(kinds, "apiFault.rule", &self.rule.matches)
    }

    fn add_names(&self, names: &mut Names) {
        names.add(NameOf::ApiFault, &self.rule.name);
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
