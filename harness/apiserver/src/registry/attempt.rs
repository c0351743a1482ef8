//! The result of a conditional write.

use super::Written;

/// One attempt of an update.
pub(super) enum Attempt {
    Done(Written),
    /// Another write came first; read and try again.
    Raced,
}
