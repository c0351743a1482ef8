//! The verdict about a Job.

/// Whether a job continues or how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It continues.
    Open,
    /// It succeeds.
    Success { reason: String, message: String },
    /// It fails.
    Failure { reason: String, message: String },
}

impl Verdict {
    pub fn is_open(&self) -> bool {
        *self == Self::Open
    }

    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failure { .. })
    }
}
