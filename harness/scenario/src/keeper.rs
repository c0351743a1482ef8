//! The keeper, which replaces machines that belong to no set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Keeps a number of machines: replaces each one that is Failed, being deleted or removed, and deletes Failed ones. The
/// machines are named LABEL-1, LABEL-2 and so on, and have the label `name: LABEL`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keeper {
    /// The machines' label `name` and name prefix.
    pub label: String,
    /// Number of machines.
    pub replicas: u32,
    /// Fields of their spec besides the class.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
}
