//! Flaps a condition of a node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::Problem;
use crate::closest::mistyped;
use crate::duration::DurationExpression;
use crate::kinds::Kinds;
use crate::names::{MACHINE, Reference};

/// An agent on a node writes a condition with alternating status. The step lasts for `lasts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Whether the condition may never be written, because the node is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

/// The condition types that kubelets and the node problem detector write. Other agents write others.
const CONDITION_TYPES: [&str; 7] = [
    "DiskPressure",
    "KernelDeadlock",
    "MemoryPressure",
    "NetworkUnavailable",
    "PIDPressure",
    "ReadonlyFilesystem",
    "Ready",
];
/// The values of a condition's status.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

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

    fn validate(&self) -> Result<(), Problem> {
        if let Some(near) = mistyped(&self.condition, CONDITION_TYPES) {
            let message = format!(
                "{:?} is not a condition type of nodes; did you mean {near:?}?",
                self.condition
            );
            return Err(("flap.condition".to_owned(), message));
        }
        let known = |value: &String| STATUSES.contains(&value.as_str());
        match self.values.iter().position(|value| !known(value)) {
            Some(index) => Err((
                format!("flap.values[{index}]"),
                format!(
                    "{:?} is not a status of a condition; valid are {}",
                    self.values[index],
                    STATUSES.join(", ")
                ),
            )),
            None => Ok(()),
        }
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("flap.machine", MACHINE, &self.machine)])
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![
            ("flap.every".to_owned(), &self.every),
            ("flap.lasts".to_owned(), &self.lasts),
        ]
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
