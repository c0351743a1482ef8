//! Why a fault rule makes no sense.

use super::rates::RateError;

/// Why a fault rule makes no sense, and what to change in it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultRuleError {
    /// These effects cannot come together.
    #[error("{} exclude each other: write two rules", .0.join(" and "))]
    Exclusive(Vec<&'static str>),
    /// The answer is given twice.
    #[error("error and code are both given: leave one out")]
    ErrorAndCode,
    /// Its effect needs an error.
    #[error("the rule answers no error: give it a code other than OK, or an error")]
    NoError,
    /// That effect needs a call that succeeds.
    #[error("{0} goes with a call that succeeds: leave the code out")]
    NeedsSuccess(&'static str),
    /// That effect needs a call that changes a VM.
    #[error("{0} is for creations and deletions: set operation to create or delete")]
    NeedsChange(&'static str),
    /// The operation has no such part.
    #[error(
        "partial does not go with this operation: nics and disks are for create, nics for initialize, vm for delete, \
         tags for update"
    )]
    Partial,
    /// The operation names no node.
    #[error("nameless is for calls that name a node: set operation to create or get_status")]
    Nameless,
    /// The operation does not look.
    #[error("stale is for calls that look: set operation to get_status or list")]
    Stale,
    /// Nothing is stale.
    #[error("stale by nothing changes nothing: make it longer")]
    StaleByNothing,
    /// The rule has no effect.
    #[error("the rule changes nothing: give it a code other than OK, or a latency")]
    ChangesNothing,
    /// The rule strikes nothing.
    #[error("times is 0, so the rule never fires: leave it out, or make it at least 1")]
    NeverFires,
    /// That is no probability.
    #[error("probability is {0}, and must be more than 0 and at most 1")]
    Probability(f64),
    /// The window is empty.
    #[error("window.until must be later than window.from")]
    Window,
    /// The throttle's rate makes no sense.
    #[error("throttle.{0}")]
    Throttle(#[from] RateError),
}
