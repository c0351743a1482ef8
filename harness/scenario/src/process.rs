//! The processes of a world.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Process {
    /// The machine controller manager.
    Mcm,
    /// The built-in Kubernetes controllers; a separate process in virtual time only.
    Controllers,
    /// fakecloud, whose ledger survives a restart. In virtual time only its kubelets, storage and cloud controller stop
    /// and start; calls are answered throughout.
    Fakecloud,
    /// The driver processes that register with mcm.
    Drivers,
    /// The process that only checks the health of machines, with `healthChecks: separate`; it can be disturbed in virtual time
    /// only.
    HealthChecks,
    /// The example remediation controller, with `remediation: true`; it can be stopped in virtual time and on kind, and disturbed
    /// in virtual time only.
    Remediation,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mcm => f.write_str("mcm"),
            Self::Controllers => f.write_str("controllers"),
            Self::Fakecloud => f.write_str("fakecloud"),
            Self::Drivers => f.write_str("drivers"),
            Self::HealthChecks => f.write_str("health-checks"),
            Self::Remediation => f.write_str("remediation"),
        }
    }
}
