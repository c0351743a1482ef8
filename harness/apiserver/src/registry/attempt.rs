//! The result of a conditional write.

use super::{Entry, Written};
use crate::status::ApiError;
use crate::store::Refused;

/// One attempt of an update.
pub(super) enum Attempt {
    Done(Written),
    /// Another write came first; read and try again.
    Raced,
}

/// The error of a commit that did not happen; `None`: another write came first.
pub(super) fn refusal(refused: Refused, entry: &Entry, name: &str) -> Option<ApiError> {
    match refused {
        Refused::Raced => None,
        Refused::Gone => Some(ApiError::not_found(&entry.resource, name)),
        unwritten @ Refused::Unwritten(_) => Some(ApiError::internal(unwritten)),
    }
}
