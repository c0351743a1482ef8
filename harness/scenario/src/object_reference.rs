//! Names of objects.

use serde::{Deserialize, Serialize};

/// The name of an object; its namespace is the scenario's unless it says another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectReference {
    /// For instance `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
}
