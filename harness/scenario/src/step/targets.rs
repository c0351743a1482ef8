//! The targets of a step.

use crate::object_reference::ObjectReference;
use crate::process::Process;

/// The objects and parts of the world that a step affects: for invariants, for the trace, and to find its subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// The object that a user changes or deletes.
    pub object: Option<ObjectReference>,
    /// Whether the user deletes it.
    pub deletes: bool,
    /// Whether the user deletes it by force.
    pub forces: bool,
    /// Whether the user cordons (`true`) or uncordons (`false`) the Node that is `object`; `None`: neither.
    pub cordons: Option<bool>,
    /// The part of the world that a fault affects, by its name in the trace; `None`: the step is an action of a user.
    pub fault: Option<String>,
    /// The object on which the step acts and which must exist before; `None`: there is none.
    pub subject: Option<Subject>,
}

/// The object on which a step acts. Its name is known only while the scenario runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The VM of a machine.
    VmOf(String),
    /// The Node of a machine.
    NodeOf(String),
}

impl Targets {
    /// An object that a user changes.
    pub(super) fn object(api_version: Option<&str>, kind: &str, name: &str) -> Self {
        let object = ObjectReference {
            api_version: api_version.map(str::to_owned),
            ..ObjectReference::new(kind, name)
        };
        Self {
            object: Some(object),
            ..Self::default()
        }
    }

    /// A part of the world that a fault affects.
    pub(super) fn fault(target: &str) -> Self {
        Self::default().with_fault(target)
    }

    pub(super) fn with_fault(self, target: &str) -> Self {
        Self {
            fault: Some(target.to_owned()),
            ..self
        }
    }

    pub(super) fn deleted(self) -> Self {
        Self { deletes: true, ..self }
    }

    pub(super) fn forced(self) -> Self {
        Self { forces: true, ..self }
    }

    pub(super) fn cordoned(self, cordons: bool) -> Self {
        Self {
            cordons: Some(cordons),
            ..self
        }
    }

    pub(super) fn on_vm_of(self, machine: &str) -> Self {
        Self {
            subject: Some(Subject::VmOf(machine.to_owned())),
            ..self
        }
    }

    pub(super) fn on_node_of(self, machine: &str) -> Self {
        Self {
            subject: Some(Subject::NodeOf(machine.to_owned())),
            ..self
        }
    }
}

/// How a step changes the disturbances of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisturbanceChange {
    /// A rule becomes active.
    Begins {
        /// The rule's name.
        rule: String,
        /// Maximum number of effects; `None`: unlimited until it is removed.
        at_most: Option<u64>,
    },
    /// A rule ends.
    Ends {
        /// The rule's name.
        rule: String,
    },
    /// A process is down from now on.
    ProcessEnds(Process),
    /// A process is up again.
    ProcessStarts(Process),
}

impl DisturbanceChange {
    pub(super) fn begins(rule: &str, at_most: Option<u64>) -> Self {
        Self::Begins {
            rule: rule.to_owned(),
            at_most,
        }
    }

    pub(super) fn ends(rule: &str) -> Self {
        Self::Ends { rule: rule.to_owned() }
    }
}
