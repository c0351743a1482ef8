//! Whether and how a Job ends.

/// Whether a job goes on, and if not, how it ends and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
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
