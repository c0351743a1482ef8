//! What a decision returns: a list of actions, at most one status write, when to look again, and why.

use std::time::Duration;

use mcm_api::MachineStatus;

use super::action::{Action, Failure};
use super::drain_memory::DrainMemory;
use super::reason::Reason;
use super::settings::Retry;

/// What is to be done about one machine.
///
/// A wake of zero means: again at once, with a view that has what was just written.
///
/// The shell performs `actions` in order. The first that fails ends the list: unless it
/// [may fail](Action::may_fail), the shell puts it in [`View::failure`](super::View::failure) and
/// decides again at once. A [`Action::Claim`], [`Action::Call`], [`Action::AskVolumeIds`], [`Action::ListPods`] or [`Action::EnsureBootstrapToken`] is always the last
/// action of a plan without a status: its result goes into the view, and the shell decides again at
/// once. Otherwise `status` is written, and the machine is looked at again after `wake`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In this order; each can be repeated without harm.
    pub actions: Vec<Action>,
    /// The whole new status; `None`: nothing to write.
    pub status: Option<MachineStatus>,
    /// What is to be remembered of the machine's drain, before anything is done; `None`: what was remembered before.
    pub drain: Option<DrainMemory>,
    /// Look again after this time at the latest; `None`: only when something changes.
    pub wake: Option<Duration>,
    /// How long the end of a preservation is ahead, which is not missed whatever becomes of the plan; `None`: none is.
    pub expiry: Option<Duration>,
    /// It waits to try again what could not be written: the oftener in a row, the longer than `wake` the shell waits.
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

    /// Again after a write that failed.
    pub(super) fn again(self, failure: &Failure, retry: &Retry) -> Self {
        Self {
            after_failure: true,
            ..self.after(retry.after_failed_write(failure.conflict))
        }
    }

    /// Again after that time.
    pub(super) fn after(mut self, wake: Duration) -> Self {
        self.wake = Some(wake);
        self
    }

    /// That, too.
    pub(super) fn act(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}
