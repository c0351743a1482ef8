//! What may refuse a write beside its validation.

use serde_json::Value;

use crate::status::ApiError;

/// Looks at an object that a client wants to write, as it was sent, before it is validated; the old one
/// is there on update.
pub trait Guard: Send + Sync + std::fmt::Debug {
    /// # Errors
    /// Why it must not be written.
    fn check(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError>;
}
