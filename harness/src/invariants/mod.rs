//! Invariants: what must hold at every moment of every scenario. A breach ends the run at once.
//!
//! What lives here: one pure check a file over the world's state, and the table of all. What must not: expectations of
//! one scenario.

mod foreign_nodes;
mod no_leaked_vm;
mod one_vm_a_machine;
mod stable_provider_id;

pub use self::foreign_nodes::Interest;
use crate::engine::observe::Observation;
use crate::engine::world::WorldState;

/// One invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its short name, as in `I1`.
    pub name: &'static str,
    /// What it says.
    pub statement: &'static str,
    check: fn(&WorldState, &Observation) -> Option<String>,
}

/// All invariants, checked in this order.
pub static ALL: [Invariant; 4] = [
    Invariant {
        name: "I1",
        statement: "at most one live VM carries a Machine's uid; a stopped VM is live",
        check: one_vm_a_machine::check,
    },
    Invariant {
        name: "I2a",
        statement: "when a Machine object is removed, no VM of it is left",
        check: no_leaked_vm::check,
    },
    Invariant {
        name: "provider-id",
        statement: "a Machine's provider id never changes",
        check: stable_provider_id::check,
    },
    Invariant {
        name: "foreign-nodes",
        statement: "a node whose provider id is not fakecloud's is never written to",
        check: foreign_nodes::check,
    },
];

/// What a provider id of fakecloud's begins with.
const PROVIDER: &str = "fakecloud://";

/// Whether a node with that provider id is one of fakecloud's.
pub fn is_ours(provider_id: Option<&str>) -> bool {
    provider_id.is_some_and(|id| id.starts_with(PROVIDER))
}

/// A breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// What it says.
    pub statement: &'static str,
    /// The objects that break it.
    pub objects: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "invariant {} is broken ({}): {}",
            self.invariant, self.statement, self.objects
        )
    }
}

/// Checks the world after an observation; the first breach.
pub fn check(world: &WorldState, observation: &Observation) -> Option<Violation> {
    ALL.iter().find_map(|invariant| {
        let objects = (invariant.check)(world, observation)?;
        Some(Violation {
            invariant: invariant.name,
            statement: invariant.statement,
            objects,
        })
    })
}

#[cfg(test)]
mod tests;
