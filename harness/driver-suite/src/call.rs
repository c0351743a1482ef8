//! The calls of the contract and their failures.

use std::fmt;
use std::time::Duration;

use mcm_driver::{CALL_LIMIT, CREATE_LIMIT, Code, DriverError};

/// A call of the driver contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates the VM of a machine.
    CreateMachine,
    /// Completes a VM.
    InitializeMachine,
    /// Deletes the VM of a machine.
    DeleteMachine,
    /// Looks up the VM of a machine.
    GetMachineStatus,
    /// Lists the VMs of a class.
    ListMachines,
    /// Applies a provider spec to a VM.
    UpdateMachine,
    /// Switches off the VM of a machine.
    StopMachine,
    /// Names the volumes of this cloud.
    GetVolumeIds,
}

impl Call {
    /// Whether every driver must implement the call.
    pub fn is_required(self) -> bool {
        matches!(self, Self::CreateMachine | Self::DeleteMachine)
    }

    /// The duration after which `mcm` gives up.
    pub fn contract_limit(self) -> Duration {
        match self {
            Self::CreateMachine => CREATE_LIMIT,
            _ => CALL_LIMIT,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A call without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The driver returned an error.
    #[error("{call} failed with {}: {}", error.code, error.message)]
    Failed {
        /// The call.
        call: Call,
        /// The driver's error.
        error: DriverError,
    },
    /// The driver did not answer in time.
    #[error("{call} did not answer within {limit:?}")]
    NoAnswer {
        /// The call.
        call: Call,
        /// The time that the suite waited.
        limit: Duration,
    },
}

impl CallError {
    /// The code of the driver's error; `None`: there was no answer.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Failed { error, .. } => Some(error.code),
            Self::NoAnswer { .. } => None,
        }
    }

    /// Whether the driver does not have this optional call.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Failed { call, error } if !call.is_required() && error.code == Code::Unimplemented)
    }
}
