//! Flaps a condition of a node.

use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::duration::DurationExpression;

/// An agent on a node writes a condition with alternating status. The step lasts for `lasts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flap {
    /// The machine of the node.
    pub machine: String,
    /// The condition's type.
    pub condition: String,
    /// Its alternating status.
    #[serde(default = "true_and_false")]
    pub values: [String; 2],
    /// How long each value stays.
    pub every: DurationExpression,
    /// Duration of the step.
    pub lasts: DurationExpression,
}

fn true_and_false() -> [String; 2] {
    ["True", "False"].map(str::to_owned)
}

impl StepDefinition for Flap {
    fn description(&self) -> String {
        format!(
            "flap {} on the node of {} every {} for {}",
            self.condition, self.machine, self.every, self.lasts
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Flap(self)
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("node of {}", self.machine)).on_node_of(&self.machine)
    }
}
