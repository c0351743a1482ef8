//! Why a fault rule is invalid.

use crate::RateError;

/// Why a fault rule is invalid, and what to change in it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultRuleError {
    /// These effects cannot be combined.
    #[error("{} exclude each other: write two rules", .0.join(" and "))]
    Exclusive(Vec<&'static str>),
    /// The reply is specified twice.
    #[error("action.error and action.code are both given: leave one out")]
    ErrorAndCode,
    /// The effect needs an error.
    #[error("the rule returns no error: give it an action.code other than OK, or an action.error")]
    NoError,
    /// The effect needs a call that succeeds.
    #[error("{0} requires a call that succeeds: leave action.code and action.error out")]
    NeedsSuccess(&'static str),
    /// The effect needs a call that changes a VM.
    #[error("{0} is for creations and deletions: set match.call to createMachine or deleteMachine")]
    NeedsChange(&'static str),
    /// The effect of the call cannot come later.
    #[error(
        "action.effectDelay is for creations, deletions and attachments: set match.call to createMachine, \
         deleteMachine or attachVolume"
    )]
    NotDelayable,
    /// The call has no such part.
    #[error(
        "action.partial does not apply to this match.call: nics and disks are for createMachine, nics for \
         initializeMachine, vm for deleteMachine, tags for updateMachine"
    )]
    Partial,
    /// The call does not return a node name.
    #[error(
        "action.nameless is for calls that return a node name: set match.call to createMachine or getMachineStatus"
    )]
    Nameless,
    /// The call does not read.
    #[error("action.stale is for calls that read: set match.call to getMachineStatus or listMachines")]
    Stale,
    /// The effect does not exist for calls about volumes.
    #[error(
        "{0} has no effect on attachVolume and detachVolume: use an action.code or action.error to refuse them, and \
         an action.effectDelay to make attachVolume slow; the configuration's csi.attachDelay and csi.detachDelay make \
         them slow for all VMs"
    )]
    AttachmentEffect(&'static str),
    /// The reply is not stale.
    #[error("action.stale is zero, so the rule has no effect: make it longer")]
    StaleByNothing,
    /// The rule has no effect.
    #[error("the rule has no effect: give it an action.code other than OK, an action.latency or another action")]
    ChangesNothing,
    /// The rule never hits a call.
    #[error("match.times is 0, so the rule never fires: leave it out, or make it at least 1")]
    NeverFires,
    /// The probability is out of range.
    #[error("match.probability is {0}, and must be more than 0 and at most 1")]
    Probability(f64),
    /// The window is empty.
    #[error("match.window.until must be later than match.window.from")]
    Window,
    /// The throttle's rate is invalid.
    #[error("match.throttle.{0}")]
    Throttle(#[from] RateError),
}
