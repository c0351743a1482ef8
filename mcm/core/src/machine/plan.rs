//! The result of a decision: actions, at most one status write, the time of the next wake-up, and the reason.

use std::time::Duration;

use mcm_api::MachineStatus;

use super::action::{Action, Failure};
use super::drain_memory::DrainMemory;
use super::reason::Reason;
use super::settings::Retry;

/// The plan for one machine.
///
/// A wake of zero requests an immediate decision, with a view that includes the writes of this plan.
///
/// The shell performs `actions` in order. The first that fails ends the list: unless it [may fail](Action::may_fail),
/// the shell puts it in [`View::failure`](super::View::failure) and decides again at once. A [`Action::Claim`],
/// [`Action::Call`], [`Action::AskVolumeIds`], [`Action::ListPods`] or [`Action::EnsureBootstrapToken`] is always the
/// last action of a plan without a status: its result is added to the view, and the shell decides again at once.
/// Otherwise the shell writes `status`, and decides again after `wake`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Actions, in order; each is idempotent.
    pub actions: Vec<Action>,
    /// The complete new status; `None`: nothing to write.
    pub status: Option<MachineStatus>,
    /// The new state of the machine's drain, stored before the actions; `None`: unchanged.
    pub drain: Option<DrainMemory>,
    /// The next decision is due after this time at the latest; `None`: only after a change.
    pub wake: Option<Duration>,
    /// The time until a preservation expires, which wakes the machine even if the plan fails; `None`: there is no
    /// expiry.
    pub expiry: Option<Duration>,
    /// Whether the plan retries a failed write: the shell waits for `wake` or longer, and backs off while failures
    /// continue.
    pub after_failure: bool,
    /// Why.
    pub reason: Reason,
}

impl Plan {
    /// A plan that does nothing.
    pub(super) fn new(reason: Reason) -> Self {
        Self {
            actions: Vec::new(),
            status: None,
            drain: None,
            wake: None,
            expiry: None,
            after_failure: false,
            reason,
        }
    }

    /// Retries after a failed write.
    pub(super) fn again(self, failure: &Failure, retry: &Retry) -> Self {
        Self {
            after_failure: true,
            ..self.after(retry.after_failed_write(failure.conflict))
        }
    }

    /// Sets the wake-up.
    pub(super) fn after(mut self, wake: Duration) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Appends an action.
    pub(super) fn act(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}
