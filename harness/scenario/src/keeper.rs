//! The keeper, who replaces machines that belong to no set.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Somebody who keeps so many machines: each that is Failed, being deleted or gone is replaced by one, and a Failed one is
/// deleted. They are called LABEL-1, LABEL-2 and so on, and carry `name: LABEL`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keeper {
    /// The machines' label `name`, and how their names begin.
    pub label: String,
    /// How many.
    pub replicas: u32,
    /// What their spec has beside the class.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
}
