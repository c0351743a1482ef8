//! Empties a node as `kubectl drain` does: cordons it, and evicts its pods until all are gone.

use super::{Request, StepDefinition, Targets};
use crate::duration::DurationExpression;
use serde::{Deserialize, Serialize};

/// Empties a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evict {
    /// The machine whose node it is.
    pub machine: String,
    /// Deadline by which all evicted pods must be gone.
    pub within: DurationExpression,
}

impl StepDefinition for Evict {
    fn description(&self) -> String {
        format!("evict the pods on {}, within {}", self.machine, self.within)
    }

    fn request(&self) -> Request<'_> {
        Request::Evict(self)
    }

    fn targets(&self) -> Targets {
        Targets::object("Node", &self.machine)
    }
}
