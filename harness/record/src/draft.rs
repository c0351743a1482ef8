//! Events before they have numbers.

use crate::model::Point;

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
    /// The name of the cloud call that was answered.
    pub(crate) call: Option<String>,
    /// The place of the event in the trace; `None`: the trace does not contain it.
    pub(crate) order: Option<u64>,
    /// The id of the cause.
    pub(crate) cause: Option<u64>,
    /// The id of the previous write of the same object.
    pub(crate) previous: Option<u64>,
    /// The event, without numbers.
    pub(crate) point: Point,
}
