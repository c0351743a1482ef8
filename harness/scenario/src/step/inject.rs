//! Makes cloud calls fail or slow.

use fakecloud_api::FaultRule;
use serde::{Deserialize, Deserializer};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::duration::{DurationExpression, Timeouts};
use crate::latency::Latency;

/// A rule by which cloud calls fail (`docs/reference/cloud-faults.md`). Its name is required: reports count its hits by
/// name, and `lift` removes it by name.
pub type Fault = FaultRule<Latency, DurationExpression>;

/// The rule with the durations of a stage.
pub fn resolve(fault: &Fault, timeouts: &Timeouts) -> FaultRule {
    fault.clone().map(
        |latency| latency.value(timeouts),
        |duration| duration.value(timeouts).into(),
    )
}

/// Why the rule is invalid; `None`: it is valid.
pub(crate) fn problem(fault: &Fault) -> Option<String> {
    let problem = resolve(fault, &Timeouts::production()).check().err();
    problem.map(|problem| problem.to_string())
}

/// Reads a rule. It must have a name.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fault, D::Error> {
    named(Fault::deserialize(deserializer)?)
}

/// The rule, if it has a name.
pub(crate) fn named<E: serde::de::Error>(fault: Fault) -> Result<Fault, E> {
    match fault.name.is_empty() {
        true => Err(E::missing_field("name")),
        false => Ok(fault),
    }
}

impl StepDefinition for Fault {
    fn description(&self) -> String {
        format!("inject fault {} into {}", self.name, self.call_name())
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Inject(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(self.call_name())
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::begins(&self.name, self.matches.times))
    }

    fn validate(&self) -> Result<(), (String, String)> {
        match problem(self) {
            Some(message) => Err(("inject".to_owned(), message)),
            None => Ok(()),
        }
    }
}
