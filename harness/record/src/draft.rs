//! Events before they have numbers.

use crate::model::{Link, Micros, Point};

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    /// The kind, as in the object.
    pub(crate) kind: &'static str,
    /// The plural name of the kind, as in paths.
    pub(crate) plural: &'static str,
    /// The namespace; empty: none.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
}

/// How much an event says about a run. The least interesting ones are dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// Writes of pods and of objects that are not part of the machine API, without a change of state.
    Object,
    /// Kubernetes Events.
    Event,
    /// Writes of nodes without a change of state, and reads of the cloud.
    Node,
    /// Writes of machines, sets and deployments without a change of state.
    Machine,
    /// Calls, refused requests, kubelets, hits of faults.
    Call,
    /// Changes of state, and what the scenario does.
    State,
}

impl Interest {
    /// From the least interesting.
    pub(crate) const ALL: [Self; 6] = [
        Self::Object,
        Self::Event,
        Self::Node,
        Self::Machine,
        Self::Call,
        Self::State,
    ];

    /// What the events are, for the list of dropped ones.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "writes of pods and other objects",
            Self::Event => "Kubernetes Events",
            Self::Node => "writes of nodes without a change of state, and reads of the cloud",
            Self::Machine => "writes of machines, sets and deployments without a change of state",
            Self::Call => "calls, refused requests, kubelets and hits of faults",
            Self::State => "changes of state",
        }
    }
}

/// An event of which the references are provisional ids.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// The provisional id, in the order of recording.
    pub(crate) id: u64,
    /// How much it says.
    pub(crate) interest: Interest,
    /// The written object.
    pub(crate) key: Option<ObjectKey>,
    /// Kinds and names of objects that the written one belongs to.
    pub(crate) related: Vec<(&'static str, String)>,
    /// The place of the event in the trace; `None`: the trace does not contain it.
    pub(crate) order: Option<TracePlace>,
    /// The id of the cause, and how it is known.
    pub(crate) cause: Option<(Link, u64)>,
    /// The ids of other events that came before, the latest first.
    pub(crate) seen: Vec<u64>,
    /// The id of the previous write of the same object.
    pub(crate) previous: Option<u64>,
    /// The event, without numbers.
    pub(crate) point: Point,
}

/// A place in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TracePlace(u64);

impl TracePlace {
    /// The place of an entry.
    pub(crate) fn of(entry: u64) -> Self {
        Self(3 * entry)
    }

    /// The place of a VM that the call of an entry changes: the ledger records the call after it.
    pub(crate) fn of_vm(entry: u64) -> Self {
        Self(3 * entry + 1)
    }

    /// The place of a step that began when the trace had this number of entries; `None`: before the first one.
    pub(crate) fn of_step(entries: u64) -> Option<Self> {
        entries.checked_sub(1).map(|last| Self(3 * last + 2))
    }
}

/// A step that began, as far as causes depend on it.
#[derive(Clone, Debug)]
pub(crate) struct StepMark {
    /// The id of its event.
    pub(crate) id: u64,
    /// Its number, from 1.
    pub(crate) number: usize,
    /// When it began.
    pub(crate) at: Micros,
    /// Its place in the trace.
    pub(crate) order: Option<TracePlace>,
    /// The kind and the name of the object that it changes.
    pub(crate) object: Option<(String, String)>,
    /// The part of the world that it disturbs.
    pub(crate) fault: Option<String>,
    /// Whether it changes objects that it does not name, for example the pods of a node that it drains.
    pub(crate) changes_others: bool,
    /// Whether it sets the number of machines that the harness keeps.
    pub(crate) keeps: bool,
}

/// The prefix of the ids of processes.
pub(crate) const PROCESS: &str = "process/";

/// The id of the actor of a fault.
pub(crate) fn id_of_fault(name: &str) -> String {
    format!("fault/{name}")
}
