//! Decisions about writes that the registry does not make itself: those of policies and webhooks.

use serde_json::Value;

use crate::status::ApiError;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It creates the object.
    Create,
    /// It changes the object.
    Update,
    /// It deletes the object, or starts its deletion.
    Delete,
}

impl Operation {
    /// As in rules of policies and webhooks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A write before it is stored. Objects have their stored version.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What the write does.
    pub operation: Operation,
    /// Empty for objects of the cluster.
    pub namespace: &'a str,
    /// Empty if the server generates it later.
    pub name: &'a str,
    /// The object as the write would store it; `None` for a deletion.
    pub new: Option<&'a Value>,
    /// The stored object; `None` for a creation.
    pub old: Option<&'a Value>,
}

/// Changes and checks writes before they are stored. It can wait for a program outside the server, so the registry
/// calls it without holding a lock.
pub trait Reviewer: Send + Sync + std::fmt::Debug {
    /// The object that is to be written instead; `None` if nothing changes. Adds warnings.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn mutate(&self, subject: Subject<'_>, warnings: &mut Vec<String>) -> Result<Option<Value>, ApiError>;

    /// Checks the final object. Adds warnings.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn validate(&self, subject: Subject<'_>, warnings: &mut Vec<String>) -> Result<(), ApiError>;
}
