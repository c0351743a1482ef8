//! What the decisions about sets and deployments give: steps with reasons, and when to look again.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Machine, MachineSet};
use serde_json::Value;

use crate::event::EventType;

/// The kinds that steps are about.
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

/// One thing to do. Patches are JSON merge patches; each carries the resourceVersion of the copy that it was decided
/// on, so that a newer object refuses it.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Writes metadata or spec.
    Patch {
        /// Of what kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The change.
        patch: Value,
    },
    /// Writes a status.
    WriteStatus {
        /// Of what kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The change.
        patch: Value,
    },
    /// Makes the object that was decided about the controller of an orphan, if a live look finds it there, of the same
    /// uid and not being deleted.
    Adopt {
        /// Of what kind the orphan is.
        kind: Kind,
        /// Its name.
        name: String,
        /// The change.
        patch: Value,
    },
    /// Deletes an object, if it still is the one that was decided on.
    Delete {
        /// Of what kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Precondition.
        uid: Option<String>,
        /// Precondition.
        resource_version: Option<String>,
    },
    /// Creates a set; one of that name that is there already is a collision, which the next view tells.
    CreateSet(Box<MachineSet>),
    /// Creates machines, first one, then two, then four at a time and so on; the first failure ends it. The shell draws
    /// their names and makes none while a live look finds their owner gone or being deleted.
    CreateMachines(Vec<Machine>),
    /// Records an event on the object that was decided about.
    RecordEvent {
        /// Normal or Warning.
        type_: EventType,
        /// One word.
        reason: &'static str,
        /// For people.
        message: String,
    },
}

impl Act {
    /// The removal of an object as it was decided on: no newer one, and none that came after it under its name.
    pub fn deletion(kind: Kind, metadata: &ObjectMeta) -> Self {
        Self::Delete {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }

    /// Whether the other steps go on when this one fails.
    pub fn may_fail(&self) -> bool {
        matches!(self, Self::RecordEvent { .. } | Self::Patch { kind: Kind::Node, .. })
    }
}

/// Something to do, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<R> {
    /// What.
    pub act: Act,
    /// Why.
    pub reason: R,
}

/// What is to be done about one object.
///
/// The shell performs the steps in their order. The first that fails ends the list, unless it
/// [may fail](Act::may_fail). When all were performed and there was one beside events, it decides again at once, with
/// a view that has what was just written; when one failed that may, after a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<R> {
    /// In this order.
    pub steps: Vec<Step<R>>,
    /// Look again after this time at the latest; `None`: only when something changes.
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
    /// That, too.
    pub(crate) fn push(&mut self, act: Act, reason: R) {
        self.steps.push(Step { act, reason });
    }

    /// Again after that time, or earlier.
    pub(crate) fn wake_within(&mut self, wake: Duration) {
        self.wake = Some(self.wake.map_or(wake, |known| known.min(wake)));
    }
}
