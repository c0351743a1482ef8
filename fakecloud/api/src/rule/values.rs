//! The values of a rule's fields.

use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CloudCall;

/// When a rule is active, relative to the creation of the cloud's ledger; in the disturbances of a plan, relative to
/// the start of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window<D = GoDuration> {
    /// Inclusive; absent: from the beginning.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[schemars(!default, !skip_serializing_if)]
    pub from: Option<D>,
    /// Exclusive; absent: without end.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[schemars(!default, !skip_serializing_if)]
    pub until: Option<D>,
}

/// The rate of calls that pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Throttle {
    /// Calls per second on average; more than 0.
    pub per_second: f64,
    /// Burst after a pause; at least 1.
    #[serde(default = "one")]
    pub burst: u32,
}

fn one() -> u32 {
    1
}

/// Whether a call fails before or after its effect commits. The API server's rules have the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// The call has no effect.
    #[default]
    BeforeCommit,
    /// The effect commits, and the reply is the error.
    AfterCommit,
}

/// A common error with its code and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommonError {
    /// The account's quota is used up.
    Quota,
    /// The zone has no capacity for the machine type.
    Capacity,
    /// The rate limit is exceeded.
    Throttled,
    /// The credentials have expired.
    CredentialsExpired,
    /// The credentials are unknown.
    CredentialsWrong,
    /// The credentials do not allow it.
    Denied,
    /// The API is down.
    Outage,
}

impl CommonError {
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
            Self::Throttled => "too many calls; make fewer calls, or retry later",
            Self::CredentialsExpired => "the credentials have expired",
            Self::CredentialsWrong => "the credentials are unknown",
            Self::Denied => "the credentials do not allow this",
            Self::Outage => "the API is down",
        }
    }
}

/// The part of a call's effect that commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Partial {
    /// A creation creates only the network interfaces; an initialization changes only the first one.
    Nics,
    /// A creation creates network interfaces and disks, but no VM.
    Disks,
    /// A deletion deletes the VM and leaves its disks and network interfaces behind.
    Vm,
    /// An update sets the tags, but not the flags.
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

/// The age of the ledger that a reply shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Stale<D = GoDuration> {
    /// As it was this long ago.
    By(D),
    /// As it was this many matching calls ago; without that many calls, as it was when the rule was added.
    Calls(u32),
}
