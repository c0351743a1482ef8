//! Additional checks of writes.

use serde_json::Value;

use crate::status::ApiError;

/// Checks an object as the client sent it, before validation; `old` is set on update.
pub trait Guard: Send + Sync + std::fmt::Debug {
    /// # Errors
    /// The reason for the rejection.
    fn check(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError>;
}
