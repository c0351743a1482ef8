//! Limits as a configuration writes them.

use serde::{Deserialize, Serialize};

use crate::model::{self, Operation, RateError, check_rate};

/// What one VM can have at most, and each tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// How often some calls may be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// Absent: all calls together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// So many calls in a second in the long run; more than 0.
    pub per_second: f64,
    /// So many at once after a rest; at least 1.
    #[serde(default = "one")]
    pub burst: u32,
}

fn one() -> u32 {
    1
}

impl RateLimit {
    /// Says what makes no sense.
    ///
    /// # Errors
    /// With the field and the fix.
    pub fn check(&self) -> Result<(), RateError> {
        check_rate(self.per_second, self.burst)
    }

    pub(super) fn translate(&self) -> model::RateLimit {
        model::RateLimit {
            operation: self.operation,
            per_second: self.per_second,
            burst: self.burst,
        }
    }
}
