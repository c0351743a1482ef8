//! The states of a VM, which the cloud, the scenarios and their reports share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a VM: pending → running ⇄ stopped → stopping → terminated.
///
/// The aliases are the names in ledgers of earlier versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VmState {
    /// Created, not booted yet.
    #[serde(alias = "Pending")]
    Pending,
    /// Booted.
    #[serde(alias = "Running")]
    Running,
    /// Switched off, dead or pre-empted; it still exists.
    #[serde(alias = "Stopped")]
    Stopped,
    /// Being deleted.
    #[serde(alias = "Stopping")]
    Stopping,
    /// Deleted; kept for the record only.
    #[serde(alias = "Terminated")]
    Terminated,
}

impl VmState {
    /// Whether the VM counts for "at most one live VM per machine". A stopped one does.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Stopped)
    }

    /// The name of the state in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Stopping => "stopping",
            Self::Terminated => "terminated",
        }
    }
}

impl fmt::Display for VmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(VmState::Pending, "Pending")]
    #[case(VmState::Running, "Running")]
    #[case(VmState::Stopped, "Stopped")]
    #[case(VmState::Stopping, "Stopping")]
    #[case(VmState::Terminated, "Terminated")]
    fn ledgers_of_earlier_versions_are_read(#[case] state: VmState, #[case] earlier: &str) {
        for name in [state.name(), earlier] {
            let read: VmState = serde_json::from_value(serde_json::json!(name)).unwrap();
            assert_eq!(read, state);
        }
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
}
