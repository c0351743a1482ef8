//! References to objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object by API version, kind and name; its namespace is the scenario's unless the name contains another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectReference {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// For example `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl ObjectReference {
    /// An object whose kind is identified by its name.
    pub fn new(kind: &str, name: &str) -> Self {
        Self {
            api_version: None,
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }
}
