//! The endpoints through which an object is written.

/// The endpoint of an update, which determines what it can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself: everything except the status, if that is a subresource.
    Main,
    /// `/status`.
    Status,
    /// `namespaces/finalize`: only `spec.finalizers`.
    Finalize,
}

impl Part {
    /// The name of the subresource; empty for the object itself.
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
        }
    }
}
