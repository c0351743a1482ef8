//! The reasons of a set's steps. Logs, events and tests use the same text.

use super::cause::Cause;

/// The reason of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The spec is invalid.
    #[error("{0}")]
    Invalid(String),
    /// Before the first machine is created.
    #[error("the set gets its finalizer")]
    FinalizerMissing,
    /// The set is being deleted and no machine is left.
    #[error("the set is being deleted and has no machines: its finalizer is removed")]
    Released,
    /// An orphan matches the selector.
    #[error("the machine {0} has no controller and matches the selector: it is adopted")]
    Adopted(String),
    /// A machine no longer matches the selector.
    #[error("the machine {0} no longer matches the selector: it is released")]
    LetGo(String),
    /// A machine is synchronized with the template.
    #[error("the machine {machine} gets the template's {what}")]
    Synced {
        /// The machine.
        machine: String,
        /// The changed parts.
        what: String,
    },
    /// Fewer machines than wanted.
    #[error("{there} of {wanted} machines exist: {missing} are created")]
    TooFew {
        /// Machines that count.
        there: usize,
        /// `spec.replicas`.
        wanted: usize,
        /// How many are created now.
        missing: usize,
    },
    /// More machines than wanted.
    #[error("{cause}: {there} machines exist and {wanted} are wanted: {machine} is deleted")]
    TooMany {
        /// Why there are too many.
        cause: Cause,
        /// Machines that count.
        there: usize,
        /// `spec.replicas`.
        wanted: usize,
        /// The machine to delete.
        machine: String,
    },
    /// cluster-autoscaler chose it.
    #[error("the machine {0} was chosen by the autoscaler")]
    Chosen(String),
    /// A Failed machine is replaced.
    #[error("{cause}: the machine {machine} is Failed: it is replaced")]
    Failed {
        /// How it failed.
        cause: Cause,
        /// The machine.
        machine: String,
    },
    /// The set is being deleted.
    #[error("the set is being deleted: the machine {0} is deleted")]
    SetDeleted(String),
    /// The observed state changed.
    #[error("the status changed")]
    Status,
}

impl Reason {
    /// Why a machine is deleted; `None`: none is.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::TooMany { cause, .. } | Self::Failed { cause, .. } => Some(*cause),
            Self::Chosen(_) => Some(Cause::ChosenByAutoscaler),
            Self::SetDeleted(_) => Some(Cause::SetDeleted),
            _ => None,
        }
    }

    /// The name of the variant, without its fields.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}
