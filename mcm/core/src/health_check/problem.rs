//! What is wrong with the spec of a health check.

/// A field of a health check that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct PolicyError {
    /// The path of the field.
    pub field: String,
    /// What is wrong, and the fix.
    pub problem: String,
}

impl PolicyError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}
