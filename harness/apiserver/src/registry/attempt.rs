//! How a conditional write ends.

use super::Written;

/// One attempt at an update.
pub(super) enum Attempt {
    Done(Written),
    /// Somebody else was faster; read and try again.
    Raced,
}
