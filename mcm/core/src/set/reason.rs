//! Why a set does what it does. Logs, events and tests print the same text.

/// The reason of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// `spec` is not usable.
    #[error("{0}")]
    Invalid(String),
    /// Before any machine is made.
    #[error("the set gets its finalizer")]
    FinalizerMissing,
    /// The set is being deleted and no machine is left.
    #[error("the set is being deleted and has no machines: its finalizer goes")]
    Released,
    /// An orphan matches.
    #[error("the machine {0} belongs to nobody and matches: it is adopted")]
    Adopted(String),
    /// A machine no longer matches.
    #[error("the machine {0} no longer matches: it is released")]
    LetGo(String),
    /// A template's field that is handed on in place.
    #[error("the machine {machine} gets the template's {what}")]
    Synced {
        /// The machine.
        machine: String,
        /// Which parts.
        what: String,
    },
    /// Fewer machines than wanted.
    #[error("{there} of {wanted} machines are there: {missing} are made")]
    TooFew {
        /// Machines that count.
        there: usize,
        /// `spec.replicas`.
        wanted: usize,
        /// How many are made now.
        missing: usize,
    },
    /// More machines than wanted.
    #[error("{there} machines are there and {wanted} are wanted: {machine} goes")]
    TooMany {
        /// Machines that count.
        there: usize,
        /// `spec.replicas`.
        wanted: usize,
        /// Which one.
        machine: String,
    },
    /// cluster-autoscaler named it.
    #[error("the machine {0} was chosen by the autoscaler")]
    Chosen(String),
    /// A Failed machine is replaced.
    #[error("the machine {0} is Failed: it is replaced")]
    Failed(String),
    /// The set is being deleted.
    #[error("the set is being deleted, and the machine {0} with it")]
    SetDeleted(String),
    /// What is observed changed.
    #[error("the status changed")]
    Status,
}

impl Reason {
    /// What kind of reason it is, without what it carries.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}
