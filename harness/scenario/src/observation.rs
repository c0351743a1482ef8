//! Observations: what a stage shows of its world, in the order in which it is seen.

use jiff::Timestamp;
use serde_json::Value;

use crate::cloud::CloudEvent;
use crate::kinds::Kind;

/// One thing that was seen, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// By the stage's clock, when it was seen.
    pub at: Timestamp,
    /// What.
    pub what: Seen,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An object as it is now.
    Applied(&'static Kind, Box<Value>),
    /// An object is gone; its last state where that is known.
    Deleted(&'static Kind, Box<Value>),
    /// Something in the cloud.
    Cloud(CloudEvent),
    /// Something that the controller asked of an API server of ours.
    Request(Request),
    /// How far the quiet end of the scenario is.
    Quiet(Quiet),
    /// Something that the scenario did.
    Note(String),
}

/// A request of the controller about one object, when its answer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As `get`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// The resource, with its subresource after a slash.
    pub resource: String,
    /// Its namespace; empty for one of the whole cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The HTTP code.
    pub code: u16,
}

/// How far the quiet end of a scenario is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// All faults are lifted.
    Began,
    /// What was to settle has, and collection of orphans had its time; from here on nothing is written any more.
    Silent {
        /// How many bootstrap tokens there are.
        tokens: usize,
        /// How many of the cloud's disks and network interfaces no VM has.
        parts: usize,
    },
    /// It is over.
    Over,
}
