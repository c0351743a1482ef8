//! The reasons of the disruption controller's writes.

/// Why a budget or a pod is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The status is out of date.
    Outdated,
    /// The expected number of pods cannot be computed.
    SyncFailed,
    /// A scale must be read.
    ScaleUnknown,
    /// An evicted pod was not deleted in time.
    NotDeleted,
    /// A pod's `DisruptionTarget` condition is stale.
    NotDisrupted,
    /// The budget selects no pods, or pods without a scalable controller.
    Noteworthy,
}
