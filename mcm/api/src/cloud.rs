//! Results of driver calls: the eighteen machine codes, errors and VM identities.

use std::fmt;

use k8s_openapi::api::core::v1::NodeAddress;
use serde::{Deserialize, Serialize};

use crate::names::{NodeName, ProviderId};

/// The outcome class of a driver call. Numbers 0 to 16 are gRPC's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The call was cancelled.
    Canceled = 1,
    /// Unspecified.
    Unknown = 2,
    /// The class, secret or machine is not usable.
    InvalidArgument = 3,
    /// The call took too long.
    DeadlineExceeded = 4,
    /// The VM does not exist.
    NotFound = 5,
    /// A different VM of that name exists.
    AlreadyExists = 6,
    /// The credentials do not permit the call.
    PermissionDenied = 7,
    /// Quota or capacity is used up.
    ResourceExhausted = 8,
    /// The VM is in the wrong state.
    FailedPrecondition = 9,
    /// Another operation is pending.
    Aborted = 10,
    /// A size is out of range; of a status call: several VMs match.
    OutOfRange = 11,
    /// The driver does not implement the call.
    Unimplemented = 12,
    /// The cloud failed.
    Internal = 13,
    /// The cloud does not respond.
    Unavailable = 14,
    /// Data was lost.
    DataLoss = 15,
    /// The credentials are not accepted.
    Unauthenticated = 16,
    /// The VM exists and is not initialised.
    Uninitialized = 17,
}

impl Code {
    /// All codes in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Ok,
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
        Self::Uninitialized,
    ];

    /// The code's number.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The code with that number.
    pub fn from_number(number: i32) -> Option<Self> {
        usize::try_from(number)
            .ok()
            .and_then(|index| Self::ALL.get(index))
            .copied()
    }

    /// The code's name, as in `lastOperation.errorCode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Canceled => "Canceled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::DataLoss => "DataLoss",
            Self::Unauthenticated => "Unauthenticated",
            Self::Uninitialized => "Uninitialized",
        }
    }

    /// The code with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Identifies the VM of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmIdentity {
    /// Equals the Node's `spec.providerID`; `None`: the driver did not return it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<ProviderId>,
    /// Equals the name under which the kubelet registers; `None`: the driver did not return it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<NodeName>,
    /// Used only without a target cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// State that the driver keeps between calls; opaque to the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known_state: Option<String>,
    /// Whether it runs; `None`: the driver does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

/// Whether a VM runs, according to its cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// It runs, boots or shuts down.
    Running,
    /// Nothing runs on it, until a user or the cloud starts it.
    Stopped,
}

/// A driver call that failed.
///
/// The text form is upstream's: `machine codes error: code = [NotFound] message = [...]`.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("machine codes error: code = [{code}] message = [{message}]")]
#[serde(rename_all = "camelCase")]
pub struct DriverError {
    /// The kind of failure; determines when the call is repeated.
    pub code: Code,
    /// A human-readable message.
    pub message: String,
    /// The VM, if one exists despite the failure: always set with [`Code::Uninitialized`], optional with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<Box<VmIdentity>>,
}

impl DriverError {
    /// An error without a VM.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            vm: None,
        }
    }
}
