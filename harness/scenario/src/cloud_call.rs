//! Calls of the driver.

use serde::{Deserialize, Serialize};

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloudCall {
    /// Creates a VM.
    CreateMachine,
    /// Initializes a VM.
    InitializeMachine,
    /// Deletes a VM.
    DeleteMachine,
    /// Looks for a VM.
    GetMachineStatus,
    /// Lists VMs.
    ListMachines,
    /// Applies a changed provider spec to a VM.
    UpdateMachine,
    /// Attaches a volume of the cloud or of a cluster's storage; the machine is the one of the Node.
    AttachVolume,
    /// Detaches a volume.
    DetachVolume,
}

impl CloudCall {
    /// The RPC's name in the driver's contract.
    pub fn rpc(self) -> &'static str {
        match self {
            Self::CreateMachine => "CreateMachine",
            Self::InitializeMachine => "InitializeMachine",
            Self::DeleteMachine => "DeleteMachine",
            Self::GetMachineStatus => "GetMachineStatus",
            Self::ListMachines => "ListMachines",
            Self::UpdateMachine => "UpdateMachine",
            Self::AttachVolume => "AttachVolume",
            Self::DetachVolume => "DetachVolume",
        }
    }
}
