//! Drains a node as `kubectl drain` does: cordons it, and evicts its pods until all are removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::Problem;
use crate::duration::DurationExpression;
use crate::kinds::Kinds;
use crate::names::{NODE, Reference};

/// Drains a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evict {
    /// The name of the node, which is the name of its machine unless the class sets another prefix for node names.
    pub machine: String,
    /// The time within which all pods that can be evicted must be removed.
    pub within: DurationExpression,
}

impl StepDefinition for Evict {
    fn description(&self) -> String {
        format!("evict the pods on {}, within {}", self.machine, self.within)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Evict {
            node: &self.machine,
            within: &self.within,
        }
    }

    fn targets(&self) -> Targets {
        Targets::object(None, "Node", &self.machine).cordoned(true)
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("evict.machine", NODE, &self.machine)])
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![("evict.within".to_owned(), &self.within)]
    }
}
