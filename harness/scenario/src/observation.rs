//! Observations: the events of a stage's world, in the order in which they are observed.

use jiff::Timestamp;
use serde_json::Value;

use crate::cloud::{Call, CloudEvent, Vm};
use crate::kinds::Kind;

/// An observed event and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Time of the observation by the stage's clock.
    pub at: Timestamp,
    /// The event.
    pub what: Seen,
}

/// An observed event.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A new version of an object.
    Applied(&'static Kind, Box<Value>),
    /// An object was removed; its last known version.
    Deleted(&'static Kind, Box<Value>),
    /// An event of the cloud.
    Cloud(CloudEvent),
    /// A request of the controller to an API server of the harness.
    Request(Request),
    /// Progress of the quiet end.
    Quiet(Quiet),
    /// An action of the scenario.
    Note(String),
}

impl Seen {
    /// The written object, if it has that kind.
    pub fn applied(&self, kind: &str) -> Option<&Value> {
        match self {
            Self::Applied(of, object) if of.key == kind => Some(object),
            _ => None,
        }
    }

    /// The written object, whatever its kind.
    pub fn applied_any(&self) -> Option<&Value> {
        match self {
            Self::Applied(_, object) => Some(object),
            _ => None,
        }
    }

    /// The removed object, if it has that kind.
    pub fn deleted(&self, kind: &str) -> Option<&Value> {
        match self {
            Self::Deleted(of, object) if of.key == kind => Some(object),
            _ => None,
        }
    }

    /// The driver call.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Cloud(CloudEvent::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The changed VM.
    pub fn vm(&self) -> Option<&Vm> {
        match self {
            Self::Cloud(CloudEvent::Vm(vm)) => Some(vm),
            _ => None,
        }
    }
}

/// A request of the controller for one object, after its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// For example `get`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// The resource, with its subresource after a slash.
    pub resource: String,
    /// Its namespace; empty: cluster-scoped.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The HTTP status code.
    pub code: u16,
}

/// Progress of the quiet end of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// All faults are removed.
    Began,
    /// The world has settled and the orphan collection has run; from now on no object may be written.
    Silent {
        /// Number of bootstrap tokens.
        tokens: usize,
        /// Number of the cloud's disks and network interfaces without a VM.
        parts: usize,
    },
    /// The quiet end is over.
    Over,
}
