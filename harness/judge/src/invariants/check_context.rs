//! The input of an invariant for one event.

use jiff::Timestamp;
use scenario::cloud::{Call, Vm};
use scenario::observation::Observation;
use serde_json::Value;

use super::judging_rules::JudgingRules;
use super::unconfirmed::UnconfirmedPods;
use crate::object::is_deleting;
use crate::world::WorldState;

/// The Machine on the API server when an event is observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ServerTruth {
    /// The event needs no read.
    #[default]
    NotRead,
    /// The Machine does not exist.
    Gone,
    /// The Machine.
    Machine(Value),
}

impl ServerTruth {
    /// The Machine, if it was read and exists.
    pub fn machine(&self) -> Option<&Value> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::NotRead | Self::Gone => None,
        }
    }

    /// Whether a read found that the Machine does not exist or is being deleted.
    pub fn is_ending(&self) -> bool {
        match self {
            Self::NotRead => false,
            Self::Gone => true,
            Self::Machine(machine) => is_deleting(machine),
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct CheckContext<'a> {
    /// The world after the event.
    pub world: &'a WorldState,
    /// The event and its time.
    pub observation: &'a Observation,
    /// The object's previous version; `None`: it did not exist.
    pub before: Option<&'a Value>,
    /// For a call about a machine: the current Machine on the API server.
    pub truth: &'a ServerTruth,
    /// The judging rules.
    pub rules: &'a JudgingRules,
    /// The unconfirmed pods after the event.
    pub(super) unconfirmed: &'a UnconfirmedPods,
}

impl<'a> CheckContext<'a> {
    /// The object that this event writes, if it has that kind.
    pub fn applied(&self, kind: &str) -> Option<&'a Value> {
        self.observation.what.applied(kind)
    }

    /// The object that this event removes, if it has that kind.
    pub fn deleted(&self, kind: &str) -> Option<&'a Value> {
        self.observation.what.deleted(kind)
    }

    /// The driver call of this event.
    pub fn call(&self) -> Option<&'a Call> {
        self.observation.what.call()
    }

    /// The VM that this event changes.
    pub fn vm(&self) -> Option<&'a Vm> {
        self.observation.what.vm()
    }

    /// Time of the event.
    pub fn at(&self) -> Timestamp {
        self.observation.at
    }

    /// Whether the controller may not have observed what a user changed at that time.
    pub fn may_be_unseen(&self, changed: Timestamp) -> bool {
        let due = self.rules.due(changed, self.rules.pass());
        due.is_none_or(|due| self.at() < due)
    }
}
