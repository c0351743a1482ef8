//! The plans of sets and deployments: steps with reasons, and the time of the next wake-up.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Machine, MachineSet};
use serde_json::Value;

use crate::event::EventType;

/// The kinds of objects that steps change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// MachineDeployment.
    Deployment,
    /// MachineSet.
    Set,
    /// Machine.
    Machine,
    /// Node of the target cluster.
    Node,
}

/// One action. Patches are JSON merge patches; each carries the resourceVersion of the observed object, so that the API
/// server rejects it if the object has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnerAction {
    /// Writes metadata or spec.
    Patch {
        /// The kind of the object.
        kind: Kind,
        /// Its name.
        name: String,
        /// The change.
        patch: Value,
    },
    /// Writes a status.
    WriteStatus {
        /// The kind of the object.
        kind: Kind,
        /// Its name.
        name: String,
        /// The change.
        patch: Value,
    },
    /// Makes the object of the plan the controller of an orphan, if a live read shows it with the same uid and not
    /// being deleted.
    Adopt {
        /// The kind of the orphan.
        kind: Kind,
        /// Its name.
        name: String,
        /// The change.
        patch: Value,
    },
    /// Deletes an object if it has not changed since the decision.
    Delete {
        /// The kind of the object.
        kind: Kind,
        /// Its name.
        name: String,
        /// Precondition.
        uid: Option<String>,
        /// Precondition.
        resource_version: Option<String>,
    },
    /// Creates a set; if the name exists, the next view reports the collision.
    CreateSet(Box<MachineSet>),
    /// Creates machines in batches of one, two, four and so on; the first failure ends it. The shell generates their
    /// names, and creates none if a live read shows their owner absent or being deleted.
    CreateMachines(Vec<Machine>),
    /// Records an event on the object of the plan.
    RecordEvent {
        /// Normal or Warning.
        type_: EventType,
        /// A CamelCase word.
        reason: &'static str,
        /// Human-readable text.
        message: String,
    },
}

impl OwnerAction {
    /// The deletion of an object, with uid and resourceVersion as preconditions.
    pub fn deletion(kind: Kind, metadata: &ObjectMeta) -> Self {
        Self::Delete {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }

    /// Whether the other steps continue when this one fails.
    pub fn may_fail(&self) -> bool {
        matches!(self, Self::RecordEvent { .. } | Self::Patch { kind: Kind::Node, .. })
    }
}

/// An action and its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<R> {
    /// The action.
    pub action: OwnerAction,
    /// Its reason.
    pub reason: R,
}

/// The plan for one object.
///
/// The shell performs the steps in order. The first failure ends the list, unless the step [may fail](OwnerAction::may_fail).
/// If all steps were performed, and not only events, the shell decides again at once, with a view that includes the
/// writes; after the failure of a step that may fail, it decides again after a wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<R> {
    /// The steps, in order.
    pub steps: Vec<Step<R>>,
    /// The next decision is due after this time at the latest; `None`: only after a change.
    pub wake: Option<Duration>,
}

impl<R> Default for Plan<R> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            wake: None,
        }
    }
}

impl<R> Plan<R> {
    /// Whether the plan writes a status, and otherwise at most events: it changes nothing that the next decision uses.
    pub fn only_reports(&self) -> bool {
        let writes = |action: &OwnerAction| matches!(action, OwnerAction::WriteStatus { .. });
        let reports = |action: &OwnerAction| writes(action) || matches!(action, OwnerAction::RecordEvent { .. });
        self.steps.iter().any(|step| writes(&step.action)) && self.steps.iter().all(|step| reports(&step.action))
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, action: OwnerAction, reason: R) {
        self.steps.push(Step { action, reason });
    }

    /// Requests the next decision after that time at the latest.
    pub(crate) fn wake_within(&mut self, wake: Duration) {
        self.wake = Some(self.wake.map_or(wake, |known| known.min(wake)));
    }
}
