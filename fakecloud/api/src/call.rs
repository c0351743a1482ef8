//! Calls of the driver, and of the storage.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A call of the driver, named as in its contract, or of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CloudCall {
    /// Creates a VM.
    CreateMachine,
    /// Initializes a VM after its creation.
    InitializeMachine,
    /// Deletes a VM.
    DeleteMachine,
    /// Looks up a VM.
    GetMachineStatus,
    /// Lists VMs.
    ListMachines,
    /// Returns the IDs of volumes.
    #[serde(rename = "getVolumeIDs")]
    GetVolumeIds,
    /// Applies a changed provider spec to a VM; also `UpdateVm` of the control contract.
    UpdateMachine,
    /// Switches a VM off.
    StopMachine,
    /// Attaches a volume of the cloud or of a cluster's storage to the machine whose Node requests it.
    AttachVolume,
    /// Detaches a volume.
    DetachVolume,
}

/// Each call with its name in files and its old name in rules of `fakecloud`.
const NAMES: [(CloudCall, &str, &str); 10] = [
    (CloudCall::CreateMachine, "createMachine", "create"),
    (CloudCall::InitializeMachine, "initializeMachine", "initialize"),
    (CloudCall::DeleteMachine, "deleteMachine", "delete"),
    (CloudCall::GetMachineStatus, "getMachineStatus", "get_status"),
    (CloudCall::ListMachines, "listMachines", "list"),
    (CloudCall::GetVolumeIds, "getVolumeIDs", "volumes"),
    (CloudCall::UpdateMachine, "updateMachine", "update"),
    (CloudCall::StopMachine, "stopMachine", "stop"),
    (CloudCall::AttachVolume, "attachVolume", "attach"),
    (CloudCall::DetachVolume, "detachVolume", "detach"),
];
const FILE_NAMES: [&str; NAMES.len()] = {
    let mut names = [""; NAMES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = NAMES[index].1;
        index += 1;
    }
    names
};

impl CloudCall {
    /// Whether it attaches or detaches a volume.
    pub fn is_about_volumes(self) -> bool {
        matches!(self, Self::AttachVolume | Self::DetachVolume)
    }

    /// All calls.
    pub const ALL: [Self; NAMES.len()] = {
        let mut all = [Self::CreateMachine; NAMES.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = NAMES[index].0;
            index += 1;
        }
        all
    };

    /// The name in the driver's contract.
    pub fn rpc(self) -> &'static str {
        match self {
            Self::CreateMachine => "CreateMachine",
            Self::InitializeMachine => "InitializeMachine",
            Self::DeleteMachine => "DeleteMachine",
            Self::GetMachineStatus => "GetMachineStatus",
            Self::ListMachines => "ListMachines",
            Self::GetVolumeIds => "GetVolumeIDs",
            Self::UpdateMachine => "UpdateMachine",
            Self::StopMachine => "StopMachine",
            Self::AttachVolume => "AttachVolume",
            Self::DetachVolume => "DetachVolume",
        }
    }

    /// The name in files that replaces an old one; `None`: `old` is not an old name.
    pub fn renamed(old: &str) -> Option<&'static str> {
        NAMES.into_iter().find(|entry| entry.2 == old).map(|entry| entry.1)
    }
}

impl fmt::Display for CloudCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rpc())
    }
}

/// A call by its name or its old name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyCall(pub CloudCall);

impl<'de> Deserialize<'de> for AnyCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let entry = NAMES.into_iter().find(|entry| entry.1 == text || entry.2 == text);
        entry
            .map(|entry| Self(entry.0))
            .ok_or_else(|| serde::de::Error::unknown_variant(&text, &FILE_NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_one_name_in_files_and_is_also_read_by_its_old_name() {
        for (call, name, old) in NAMES {
            assert_eq!(serde_json::to_value(call).unwrap(), name);
            assert_eq!(serde_json::from_value::<CloudCall>(name.into()).unwrap(), call);
            for text in [name, old] {
                let read: AnyCall = serde_json::from_value(text.into()).unwrap();
                assert_eq!(read, AnyCall(call));
            }
            assert_eq!((CloudCall::renamed(old), CloudCall::renamed(name)), (Some(name), None));
            assert!(call.rpc().eq_ignore_ascii_case(name));
        }
        let unknown = serde_json::from_value::<AnyCall>("unknown".into())
            .unwrap_err()
            .to_string();
        assert!(
            unknown.contains("`getVolumeIDs`") && !unknown.contains("get_status"),
            "{unknown}"
        );
    }
}
