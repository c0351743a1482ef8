//! The VM that a command selects, and why a command is rejected.

use std::fmt;

use super::VmState;

/// Selects the VM of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// By its id.
    Id(String),
    /// By its provider ID.
    ProviderId(String),
    /// By the `NAME` or `NAMESPACE/NAME` of its machine; finds live VMs only.
    Machine(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id {id:?}"),
            Self::ProviderId(id) => write!(f, "provider id {id:?}"),
            Self::Machine(machine) => write!(f, "machine {machine:?}"),
        }
    }
}

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No VM matches.
    #[error("there is no VM of {0}")]
    NotFound(Reference),
    /// Several VMs match.
    #[error("{reference} has several VMs; select one by its id: {}", ids.join(", "))]
    Several {
        /// The reference.
        reference: Reference,
        /// The VMs that match.
        ids: Vec<String>,
    },
    /// The VM is in the wrong state.
    #[error("VM {vm} is {state}, and must be {needed} for this command")]
    State {
        /// The VM's id.
        vm: String,
        /// Its state.
        state: VmState,
        /// The state or states in which the command is legal.
        needed: &'static str,
    },
    /// The hold does not exist.
    #[error("there is no hold {0:?}")]
    NoHold(String),
    /// A value of the command is invalid.
    #[error("{0}")]
    Unusable(String),
    /// The failure does not exist.
    #[error("{0:?} has no active failure: use the glob of the command that made it fail")]
    NoOutage(String),
    /// The zone's hosts are down.
    #[error("VM {vm} cannot boot: the hosts of its zone {zone} are down")]
    ZoneDown {
        /// The VM's id.
        vm: String,
        /// Its zone.
        zone: String,
    },
    /// The cloud has no capacity for the VM.
    #[error("{0}")]
    NoRoom(String),
    /// A hold needs a pattern.
    #[error("the pattern is empty: give a VM's id, or a glob on machine names such as *")]
    EmptyPattern,
}
