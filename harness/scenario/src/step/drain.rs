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
pub struct Drain {
    /// The name of the node, which is the name of its machine unless the class sets another prefix for node names.
    #[serde(alias = "machine")]
    pub node: String,
    /// The time within which all pods that can be evicted must be removed.
    pub within: DurationExpression,
}

impl StepDefinition for Drain {
    fn description(&self) -> String {
        format!("drain node {}, within {}", self.node, self.within)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Drain {
            node: &self.node,
            within: &self.within,
        }
    }

    fn targets(&self) -> Targets {
        Targets::object(None, "Node", &self.node).cordoned(true)
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("drain.node", NODE, &self.node)])
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![("drain.within".to_owned(), &self.within)]
    }
}
