//! Limits in the configuration.

use fakecloud_api::{AnyCall, CloudCall, RateError, check_rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model;

/// Limits of one VM and of its tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PartLimits {
    /// Disks of a VM.
    pub disks: usize,
    /// Network interfaces of a VM.
    pub nics: usize,
    /// Tags of a VM, a disk or an interface.
    pub tags: usize,
    /// Characters of a tag's key.
    pub tag_key: usize,
    /// Characters of a tag's value.
    pub tag_value: usize,
}

impl Default for PartLimits {
    fn default() -> Self {
        Self {
            disks: 16,
            nics: 8,
            tags: 50,
            tag_key: 128,
            tag_value: 256,
        }
    }
}

impl PartLimits {
    pub(super) fn translate(&self) -> model::PartLimits {
        model::PartLimits {
            disks: self.disks,
            nics: self.nics,
            tags: self.tags,
            tag_key: self.tag_key,
            tag_value: self.tag_value,
        }
    }
}

/// A rate limit of some calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", try_from = "WrittenRateLimit")]
#[schemars(!try_from, deny_unknown_fields)]
pub struct RateLimit {
    /// Absent: all calls together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CloudCall>,
    /// Calls per second on average; more than 0.
    pub per_second: f64,
    /// Burst after a pause; at least 1.
    #[schemars(default = "one")]
    pub burst: u32,
}

/// A rate limit with its old spelling.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenRateLimit {
    call: Option<AnyCall>,
    operation: Option<AnyCall>,
    per_second: f64,
    #[serde(default = "one")]
    burst: u32,
}

impl TryFrom<WrittenRateLimit> for RateLimit {
    type Error = &'static str;

    fn try_from(written: WrittenRateLimit) -> Result<Self, Self::Error> {
        if written.call.is_some() && written.operation.is_some() {
            return Err("`operation` and `call` are both given: leave out `operation`, the old spelling of `call`");
        }
        Ok(Self {
            call: written.call.or(written.operation).map(|call| call.0),
            per_second: written.per_second,
            burst: written.burst,
        })
    }
}

fn one() -> u32 {
    1
}

impl RateLimit {
    /// Checks the rate.
    ///
    /// # Errors
    /// The field and the fix.
    pub fn check(&self) -> Result<(), RateError> {
        check_rate(self.per_second, self.burst)
    }

    pub(super) fn translate(&self) -> model::RateLimit {
        model::RateLimit {
            call: self.call,
            per_second: self.per_second,
            burst: self.burst,
        }
    }
}
