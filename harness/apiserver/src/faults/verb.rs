//! The verbs of requests, as rules name them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection.
    Watch,
    /// Creates an object; posts to a subresource.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];
    /// The verbs of writes.
    pub const WRITES: [Self; 5] = [
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// The name in rules and authorization.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The verb with that name.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
