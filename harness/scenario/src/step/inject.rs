//! Makes calls of the cloud fail or slow.

use mcm_api::Code;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::cloud_call::CloudCall;
use crate::duration::DurationExpression;

/// A rule by which cloud calls fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// The rule's name: reports count its hits under it, and `lift` takes it away by it.
    pub name: String,
    /// Which call.
    pub call: CloudCall,
    /// Of which machine; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How many matching calls pass first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u32,
    /// How many calls it hits; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The answer of a hit; absent: the call is only slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What the answer of a hit says; absent: the cloud's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long a hit takes before it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<DurationExpression>,
    /// True: the call does its work and then fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_effect: bool,
    /// What else a hit does; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// What a call that is struck does to the cloud beside its answer (`docs/reference/cloud-faults.md` has the rules).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Nothing is done, and the answer says that all is well; a VM that lives is not found. Byzantine.
    Lie,
    /// A creation makes a VM that never boots; a deletion never ends.
    Stuck,
    /// A creation makes network interfaces and no VM; the answer is the fault's `code`.
    OnlyNics,
    /// A lookup or a list shows the cloud as it was so long ago.
    Stale(DurationExpression),
    /// The answer of a creation or a lookup does not name the node. Byzantine.
    Nameless,
}

impl Effect {
    /// Whether no cloud that keeps its contract does so.
    pub fn is_byzantine(&self) -> bool {
        matches!(self, Self::Lie | Self::Nameless)
    }
}

impl Fault {
    /// A rule that does nothing yet, for every one of these calls.
    pub fn of(name: impl Into<String>, call: CloudCall) -> Self {
        Self {
            name: name.into(),
            call,
            machine: None,
            skip: 0,
            times: None,
            code: None,
            message: None,
            latency: None,
            after_effect: false,
            effect: None,
        }
    }

    /// Of that machine alone.
    #[must_use]
    pub fn machine(self, machine: &str) -> Self {
        Self {
            machine: Some(machine.to_owned()),
            ..self
        }
    }

    /// So many calls at most.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// A hit is answered with that code.
    #[must_use]
    pub fn code(self, code: Code) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// The answer of a hit says that.
    #[must_use]
    pub fn message(self, message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..self
        }
    }

    /// A hit does that.
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        Self {
            effect: Some(effect),
            ..self
        }
    }

    /// What a fault lacks that does nothing at all.
    pub(crate) fn idle(&self) -> Option<&'static str> {
        let idle = self.code.is_none() && self.latency.is_none() && self.effect.is_none();
        idle.then_some("a fault needs a `code`, a `latency` or an `effect`")
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl StepDefinition for Fault {
    fn description(&self) -> String {
        format!("inject fault {} into {}", self.name, self.call.rpc())
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Inject(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(self.call.rpc())
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::begins(&self.name, self.times.map(u64::from)))
    }

    fn validate(&self) -> Result<(), (String, String)> {
        match self.idle() {
            Some(message) => Err(("inject".to_owned(), message.to_owned())),
            None => Ok(()),
        }
    }
}
