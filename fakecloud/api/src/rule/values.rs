//! The values of a rule's fields.

use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use crate::CloudCall;

/// When a rule is in force, counted from the beginning of the cloud's ledger; in the disturbances of a plan from the
/// start of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window<D = GoDuration> {
    /// Inclusive; absent: from the beginning.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub from: Option<D>,
    /// Exclusive; absent: without end.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub until: Option<D>,
}

/// How many calls pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Throttle {
    /// How many per second in the long run; more than 0.
    pub per_second: f64,
    /// How many at once after a pause; at least 1.
    #[serde(default = "one")]
    pub burst: u32,
}

fn one() -> u32 {
    1
}

/// On which side of a call's effect it fails. The API server's rules have the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// Nothing is done.
    #[default]
    BeforeCommit,
    /// The work is done, and the reply is the error all the same.
    AfterCommit,
}

/// A common error with its code and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trouble {
    /// The account's quota is used up.
    Quota,
    /// The zone has no room for the machine type.
    Capacity,
    /// Too many calls.
    Throttled,
    /// The credentials have expired.
    CredentialsExpired,
    /// The credentials are not known.
    CredentialsWrong,
    /// The credentials do not allow it.
    Denied,
    /// The API is down.
    Outage,
}

impl Trouble {
    /// The code of the reply.
    pub fn code(self) -> Code {
        match self {
            Self::Quota | Self::Capacity => Code::ResourceExhausted,
            Self::Throttled | Self::Outage => Code::Unavailable,
            Self::CredentialsExpired | Self::CredentialsWrong => Code::Unauthenticated,
            Self::Denied => Code::PermissionDenied,
        }
    }

    /// The message of the reply.
    pub fn text(self) -> &'static str {
        match self {
            Self::Quota => "the quota is used up",
            Self::Capacity => "there is no capacity for this machine type in this zone",
            Self::Throttled => "too many calls; make fewer, or come again later",
            Self::CredentialsExpired => "the credentials have expired",
            Self::CredentialsWrong => "the credentials are not known",
            Self::Denied => "the credentials do not allow this",
            Self::Outage => "the API is down",
        }
    }
}

/// How far a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Partial {
    /// A creation creates the network interfaces only; an initialization switches the first one only.
    Nics,
    /// A creation creates network interfaces and disks, and no VM.
    Disks,
    /// A deletion ends the VM and leaves its disks and network interfaces.
    Vm,
    /// An update sets the tags and not the flags.
    Tags,
}

impl Partial {
    pub(super) fn belongs_to(self, call: Option<CloudCall>) -> bool {
        match self {
            Self::Nics => matches!(call, Some(CloudCall::CreateMachine | CloudCall::InitializeMachine)),
            Self::Disks => call == Some(CloudCall::CreateMachine),
            Self::Vm => call == Some(CloudCall::DeleteMachine),
            Self::Tags => call == Some(CloudCall::UpdateMachine),
        }
    }
}

/// How far back an answer shows the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Stale<D = GoDuration> {
    /// As it was so long ago.
    By(D),
    /// As it was at the matching call so many calls before; where there was none, when the rule was added.
    Calls(u32),
}
