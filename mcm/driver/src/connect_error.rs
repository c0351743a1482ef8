//! The error of a connection that is not established.

/// Why a connection failed: one sentence that names what to check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub(crate) String);
