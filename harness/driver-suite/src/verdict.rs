//! How a case ends.

use crate::call::CallError;

/// Why a case ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The driver breaks the rule; contains how.
    Failed(String),
    /// The rule does not apply; contains why.
    Skipped(String),
}

/// A driver without an optional call is not at fault; every other failure is one.
impl From<CallError> for Stop {
    fn from(error: CallError) -> Self {
        match &error {
            CallError::Failed { call, .. } if error.is_unimplemented() => {
                Self::Skipped(format!("the driver does not implement {call}"))
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The result of a case.
pub type Verdict = Result<(), Stop>;
