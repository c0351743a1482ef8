//! Why the disruption controller acts.

/// Why a budget or a pod is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its status does not say how things are.
    Outdated,
    /// How things are cannot be found out.
    SyncFailed,
    /// A scale has to be asked for.
    ScaleUnknown,
    /// An eviction has not led to a deletion.
    NotDeleted,
    /// A pod was to be disrupted and was not.
    NotDisrupted,
    /// Nothing is selected, or something that nobody scales.
    Noteworthy,
}
