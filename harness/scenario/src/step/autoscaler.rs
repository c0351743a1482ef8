//! Removes empty nodes as cluster-autoscaler does.

use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition};
use crate::duration::DurationExpression;

/// cluster-autoscaler, as far as it removes nodes that are empty: it names the machine and lowers the deployment's number.
/// Nodes whose annotation keeps it away it leaves alone. The step lasts as long as it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Autoscaler {
    /// Of which deployment.
    pub deployment: String,
    /// How long a node must have been empty.
    pub idle: DurationExpression,
    /// How long it goes on.
    pub lasts: DurationExpression,
}

impl StepDefinition for Autoscaler {
    fn description(&self) -> String {
        format!(
            "let cluster-autoscaler remove nodes of {} that are empty for {}, for {}",
            self.deployment, self.idle, self.lasts
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Autoscaler(self)
    }
}
