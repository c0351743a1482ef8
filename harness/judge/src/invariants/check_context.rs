//! What an invariant is shown of one event, and the terms under which it is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::cloud::{Call, CloudEvent, Vm};
use scenario::observation::{Observation, Seen};
use scenario::{PreservationDialect, Timeouts};
use serde_json::Value;

use crate::object::{is_deleting, label, name};
use crate::world::WorldState;

/// A Machine as the API server has it when an event is seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ServerTruth {
    /// The event needs no read.
    #[default]
    NotRead,
    /// There is no such Machine.
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

    /// Whether a read found that the Machine is gone or being deleted.
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
    /// The world with the event in it.
    pub world: &'a WorldState,
    /// What was seen, and when.
    pub observation: &'a Observation,
    /// Of an object: as it was before; `None`: it was not there.
    pub before: Option<&'a Value>,
    /// Of a call about a machine: the Machine as the server has it now.
    pub truth: &'a ServerTruth,
    /// The terms.
    pub rules: &'a JudgingRules,
}

/// Under what an invariant is judged.
#[derive(Clone, Debug)]
pub struct JudgingRules {
    /// What timeouts are worth on the stage.
    pub timeouts: Timeouts,
    /// Faults in force by which the cloud or the API server breaks its own contract: weak forms hold, where there are any.
    pub byzantine: BTreeSet<String>,
    /// Rules by which a creation takes effect, and is told, later than it was asked for.
    pub late: BTreeSet<String>,
    /// Rules by which mcm does not reach an API server at all, and since when.
    pub away: BTreeMap<String, Timestamp>,
    /// Since when nothing keeps the controller from its work; `None`: something does. Deadlines count from here.
    pub calm_since: Option<Timestamp>,
    /// Until when the scenario let the controller stand still last; `None`: it never did.
    pub stood_still: Option<Timestamp>,
    /// The words of preservation that the controller goes by.
    pub dialect: PreservationDialect,
    /// Objects that the scenario itself changed or deleted, as a person does.
    pub by_user: BTreeSet<(String, String)>,
    /// Objects that the scenario itself deleted, as a person does.
    pub deleted_by_user: BTreeSet<(String, String)>,
    /// Machines that the scenario itself removed by force, whoever still had to do something for them.
    pub forced: BTreeSet<String>,
    /// Sets that were read at that moment with changes of their spec between that nobody saw.
    pub leapt: BTreeMap<String, Timestamp>,
    /// Nodes that the scenario itself cordoned, as a person does, and did not open again.
    pub cordons: BTreeSet<String>,
    /// By Machine: what the scenario itself wrote last, as a person does, to ask for its preservation; `None`: nothing any
    /// more.
    pub requests: BTreeMap<String, Option<String>>,
    /// Machines whose expiry the scenario itself removed, as an operator does.
    pub ended_by_user: BTreeSet<String>,
    /// Whether there is a keeper, who deletes machines that belong to no set as a set would its own.
    pub keeper: bool,
    /// How often the scenario itself changed an object.
    pub edits: BTreeMap<(String, String), u64>,
}

impl JudgingRules {
    /// Of a run that begins calmly.
    pub fn new(timeouts: Timeouts, started: Timestamp) -> Self {
        Self {
            timeouts,
            byzantine: BTreeSet::new(),
            late: BTreeSet::new(),
            away: BTreeMap::new(),
            calm_since: Some(started),
            stood_still: None,
            dialect: PreservationDialect::default(),
            by_user: BTreeSet::new(),
            deleted_by_user: BTreeSet::new(),
            forced: BTreeSet::new(),
            leapt: BTreeMap::new(),
            cordons: BTreeSet::new(),
            requests: BTreeMap::new(),
            ended_by_user: BTreeSet::new(),
            keeper: false,
            edits: BTreeMap::new(),
        }
    }

    /// The scenario changed or deleted an object.
    pub fn touched(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        *self.edits.entry(key.clone()).or_default() += 1;
        self.by_user.insert(key);
    }

    /// Whether the scenario changed or deleted that object.
    pub fn is_by_user(&self, kind: &str, name: &str) -> bool {
        self.by_user.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Whether the scenario deleted that Machine, or its Node.
    pub fn is_deleted_by_user(&self, machine: &Value) -> bool {
        let of = |kind: &str, name: &str| self.deleted_by_user.contains(&(kind.to_owned(), name.to_owned()));
        of("Machine", name(machine)) || of("Node", label(machine, keys::NODE_LABEL))
    }

    /// When something that began at `since` and may take `limit` is late; `None`: nobody can say now.
    pub fn due(&self, since: Timestamp, limit: Duration) -> Option<Timestamp> {
        Some(self.timeouts.deadline(since.max(self.calm_since?), limit))
    }

    /// One pass of a controller, with room.
    pub fn pass(&self) -> Duration {
        self.timeouts.slack + self.timeouts.short_retry
    }

    /// When a pass that began at `since` is over at the latest.
    pub fn pass_after(&self, since: Timestamp) -> Timestamp {
        self.timeouts.deadline(since, self.pass())
    }
}

impl<'a> CheckContext<'a> {
    /// The object that was written, if it is of that kind.
    pub fn applied(&self, kind: &str) -> Option<&'a Value> {
        match &self.observation.what {
            Seen::Applied(of, object) if of.kind == kind => Some(object),
            _ => None,
        }
    }

    /// The object that went, if it is of that kind.
    pub fn deleted(&self, kind: &str) -> Option<&'a Value> {
        match &self.observation.what {
            Seen::Deleted(of, object) if of.kind == kind => Some(object),
            _ => None,
        }
    }

    /// The call of the driver that was answered.
    pub fn call(&self) -> Option<&'a Call> {
        match &self.observation.what {
            Seen::Cloud(CloudEvent::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The VM that changed.
    pub fn vm(&self) -> Option<&'a Vm> {
        match &self.observation.what {
            Seen::Cloud(CloudEvent::Vm(vm)) => Some(vm),
            _ => None,
        }
    }

    /// When.
    pub fn at(&self) -> Timestamp {
        self.observation.at
    }
}
