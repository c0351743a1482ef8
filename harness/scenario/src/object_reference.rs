//! References to objects.

use serde::{Deserialize, Serialize};

/// An object by kind and name; its namespace is the scenario's unless the name contains another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectReference {
    /// For example `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
}
