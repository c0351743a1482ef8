//! The processes of a world.

use serde::{Deserialize, Serialize};

/// A process of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Process {
    /// The machine controller manager.
    Mcm,
    /// The built-in controllers of Kubernetes; a process of their own in virtual time alone.
    Controllers,
    /// fakecloud, whose ledger outlives it. In virtual time its kubelets, its storage and its cloud controller alone end
    /// and start: its calls are answered as before.
    Fakecloud,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mcm => f.write_str("mcm"),
            Self::Controllers => f.write_str("controllers"),
            Self::Fakecloud => f.write_str("fakecloud"),
        }
    }
}
