//! The files of the audit log.

use quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AuditLimits;

/// When the next file of the audit log begins, and how many older ones are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AuditSettings {
    /// Size of a file, in bytes, in Kubernetes' syntax.
    pub file_size: String,
    /// Number of older files.
    pub files: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            file_size: "64Mi".to_owned(),
            files: 4,
        }
    }
}

impl AuditSettings {
    pub(crate) fn limits(&self) -> AuditLimits {
        let size = self.file_size.parse::<Quantity>().map_or(0, |size| size.value());
        AuditLimits {
            file_size: u64::try_from(size).unwrap_or(u64::MAX),
            files: self.files,
        }
    }
}
