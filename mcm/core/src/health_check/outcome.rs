//! The result of a decision about a health check: actions, the next wake-up, and numbers for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use mcm_api::health_check::MachineHealthCheckStatus;
use serde_json::Value;

use super::view::RequestKind;
use crate::event::EventType;

/// The plan for one health check.
///
/// The shell performs `actions` in order. After a conflict it decides again at once; a request that cannot be created is
/// reported in [`View::failed_requests`](super::View::failed_requests). It decides again after `wake` at the latest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Actions, in order; each is idempotent.
    pub actions: Vec<Action>,
    /// The next decision is due after this time at the latest; `None`: only after a change.
    pub wake: Option<Duration>,
    /// What was found.
    pub outcome: Outcome,
    /// Whether the pass could not read something, so that it must be repeated after a wait that grows.
    pub after_failure: bool,
}

/// One action of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes the status of the check. It comes before the requests that it records.
    WriteStatus(Box<MachineHealthCheckStatus>),
    /// Writes the conditions of a machine, if its resourceVersion is still that of the view.
    WriteConditions {
        /// The machine.
        machine: String,
        /// All its conditions.
        conditions: Vec<NodeCondition>,
        /// What this requests or reports, for metrics.
        remediated: Option<Remediated>,
    },
    /// Creates a request to another controller.
    CreateRequest {
        /// The machine.
        machine: String,
        /// Its kind.
        kind: RequestKind,
        /// The object.
        object: Box<Value>,
    },
    /// Deletes a request, if it is still the same object.
    DeleteRequest {
        /// Its kind.
        kind: RequestKind,
        /// Its name.
        name: String,
        /// Precondition.
        uid: String,
        /// Why, for metrics.
        remediated: Remediated,
    },
    /// Records an event.
    RecordEvent {
        /// On which object.
        object: EventObject,
        /// Normal or Warning.
        type_: EventType,
        /// A CamelCase word.
        reason: &'static str,
        /// Human-readable text.
        message: String,
    },
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventObject {
    /// The health check.
    Check,
    /// A machine.
    Machine(String),
}

/// Who remediates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remediator {
    /// The owner of the machine.
    Owner,
    /// Another controller, which receives a request.
    External,
}

impl Remediator {
    /// The value of the label `kind` in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::External => "external",
        }
    }
}

/// A step of a remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remediated {
    /// It was requested.
    Requested(Remediator),
    /// The machine is healthy again, or gone.
    Ended(Remediator),
    /// The machine did not recover in time, and the next template is used.
    Escalated,
    /// The request could not be created.
    Failed,
}

impl Remediated {
    /// The values of the labels `kind` and `outcome` in metrics.
    pub fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Requested(remediator) => (remediator.as_str(), "requested"),
            Self::Ended(remediator) => (remediator.as_str(), "ended"),
            Self::Escalated => (Remediator::External.as_str(), "escalated"),
            Self::Failed => (Remediator::External.as_str(), "failed"),
        }
    }
}

/// The state of a machine, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is healthy.
    Healthy,
    /// A timeout runs.
    Pending,
    /// It is unhealthy, and nothing was requested.
    Unhealthy,
    /// It is being remediated.
    InRemediation,
    /// It is being deleted, or nothing is known about it.
    NotCounted,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Healthy,
        Self::Pending,
        Self::Unhealthy,
        Self::InRemediation,
        Self::NotCounted,
    ];

    /// The value of the label `state` in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Pending => "pending",
            Self::Unhealthy => "unhealthy",
            Self::InRemediation => "in_remediation",
            Self::NotCounted => "not_counted",
        }
    }
}

/// What a pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of machines in each state.
    pub machines: BTreeMap<State, usize>,
    /// Whether remediation is stopped because too many or too few machines are unhealthy.
    pub short_circuited: bool,
}
