//! The rules of preservation for one machine, based on its observed situation.
//!
//! There is one rule for a machine that fails, one for a machine that recovers, and one for a machine whose phase does
//! not change.

use mcm_api::{Phase, PreservedBy};

use super::{Dialect, PreservationRequest, Request};

/// The progress of a machine's preservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreservationProgress {
    /// It is not preserved.
    #[default]
    Free,
    /// It failed, and is being drained.
    Draining,
    /// It is preserved.
    Preserved,
    /// Its preservation is ending.
    Releasing,
}

/// The state of a machine's expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// There is none.
    #[default]
    None,
    /// It is in the future.
    Ahead,
    /// It has passed.
    Over,
}

/// Whether the owner's list allows the preservation of a failing machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admission {
    /// Allowed, also without a request.
    Open,
    /// Allowed only with a current or earlier request: the maximum is reached.
    Full,
    /// Not allowed: a rollout is in progress.
    RollingOut,
    /// Allowed only with a request: there is no list.
    #[default]
    NoList,
}

/// The state of a machine that preservation uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// The dialect.
    pub dialect: Dialect,
    /// Its phase, without the sub-phase.
    pub phase: Option<Phase>,
    /// The progress of its preservation.
    pub progress: PreservationProgress,
    /// Who requested the current preservation; `None`: not recorded.
    pub by: Option<PreservedBy>,
    /// The request of the current preservation. While it is ending: the request at the start of the end.
    pub recorded_request: Option<PreservationRequest>,
    /// Its expiry.
    pub expiry: Expiry,
    /// The current request.
    pub request: Request,
    /// Whether its entry is marked for release, because the maximum was lowered.
    pub marked: bool,
    /// Whether it is being released because it expired, so that its request must be removed.
    pub expired_before: bool,
    /// Whether it failed again during a preservation, and is drained again.
    pub relapse: bool,
    /// Whether it failed, and only another controller's mark shows that it is to be preserved.
    pub adopted: bool,
    /// Whether it has a VM.
    pub vm: bool,
}

impl Situation {
    fn is_failed(&self) -> bool {
        self.phase == Some(Phase::Failed)
    }

    fn is_automatic(&self) -> bool {
        self.by == Some(PreservedBy::Auto)
    }

    /// Why the current preservation ends; `None`: it continues.
    fn end(&self) -> Option<Release> {
        let requested = self.request.preservation();
        if self.dialect == Dialect::Off {
            return Some(Release::Off);
        }
        if self.expiry == Expiry::Over {
            return Some(Release::Expired);
        }
        if self.request == Request::Refused {
            return Some(Release::Refused);
        }
        if self.request == Request::None && self.by.is_some() && !self.is_automatic() {
            return Some(Release::Removed);
        }
        if self.marked && self.is_automatic() && requested.is_none() {
            return Some(Release::MaximumLowered);
        }
        if self.progress == PreservationProgress::Draining && self.relapse && self.expiry == Expiry::None {
            return Some(Release::ExpiryRemoved);
        }
        None
    }
}

/// Why a preservation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Release {
    /// It expired.
    #[error("it expired")]
    Expired,
    /// The request is `false`.
    #[error("the annotation is false")]
    Refused,
    /// The annotation that requested it was removed.
    #[error("the annotation that requested it was removed")]
    Removed,
    /// The request changed from `now` to `when-failed`.
    #[error("the annotation was changed to when-failed, and the machine has not failed")]
    NotFailed,
    /// The maximum of automatic preservations was lowered.
    #[error("the maximum was lowered")]
    MaximumLowered,
    /// A rollout replaces failing machines.
    #[error("a rollout is in progress, and the machine failed")]
    RollingOut,
    /// A user removed the expiry.
    #[error("its expiry was removed")]
    ExpiryRemoved,
    /// The dialect is `off`.
    #[error("preservation is off")]
    Off,
    /// The machine is deleted.
    #[error("the machine is deleted")]
    Deleted,
}

impl Release {
    /// The CamelCase reason in the machine's status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Expired => "Expired",
            Self::Refused => "Refused",
            Self::Removed => "Removed",
            Self::NotFailed => "NotFailed",
            Self::MaximumLowered => "MaximumLowered",
            Self::RollingOut => "RollingOut",
            Self::ExpiryRemoved => "ExpiryRemoved",
            Self::Off => "Off",
            Self::Deleted => "Deleted",
        }
    }
}

/// The consequence of a machine's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is replaced.
    Replace,
    /// It is preserved automatically.
    Keep,
    /// It is preserved by a current or earlier request.
    KeepRequested,
    /// Its preservation ends.
    Release(Release),
}

/// The rule for a machine that fails now.
pub fn on_failure(now: &Situation, admission: Admission) -> Failure {
    let active = now.progress != PreservationProgress::Releasing && now.expiry != Expiry::None;
    if let Some(why) = now.end().filter(|_| active) {
        return Failure::Release(why);
    }
    let requested = now.request.preservation().is_some();
    if now.dialect == Dialect::Off || now.request == Request::Refused {
        return Failure::Replace;
    }
    match admission {
        Admission::RollingOut if active => Failure::Release(Release::RollingOut),
        Admission::RollingOut => Failure::Replace,
        _ if requested || active => Failure::KeepRequested,
        Admission::Open if now.vm => Failure::Keep,
        Admission::Open | Admission::Full | Admission::NoList => Failure::Replace,
    }
}

/// Why a failing machine is not preserved, although a user or its deployment requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// A rollout replaces failing machines.
    #[error("a rollout of its deployment is in progress")]
    RollingOut,
    /// As many failed machines are preserved as the deployment allows without a request.
    #[error("as many failed machines as autoPreserveFailedMax allows are preserved already")]
    MaximumReached,
}

impl Refusal {
    /// The CamelCase reason in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::RollingOut => "RollingOut",
            Self::MaximumReached => "MaximumReached",
        }
    }
}

/// Why a machine that is replaced after a failure is not preserved; `None`: neither a user nor its deployment requests it.
/// `maximum`: how many failed machines its deployment preserves without a request.
pub fn refusal(now: &Situation, admission: Admission, maximum: usize) -> Option<Refusal> {
    let requested = now.request.preservation().is_some();
    let automatic = maximum > 0 && now.vm && now.request == Request::None;
    match admission {
        _ if now.dialect == Dialect::Off => None,
        Admission::RollingOut if requested || automatic => Some(Refusal::RollingOut),
        Admission::Full if automatic => Some(Refusal::MaximumReached),
        _ => None,
    }
}

/// The rule for a machine that was Failed and is healthy again: `Ok` if it stays preserved.
///
/// # Errors
/// The reason for which its preservation ends; `None`: it had none.
pub fn on_recovery(now: &Situation) -> Result<(), Option<Release>> {
    match now.progress {
        PreservationProgress::Free => Err(None),
        PreservationProgress::Releasing => Err(None),
        PreservationProgress::Draining | PreservationProgress::Preserved => {
            if let Some(why) = now.end() {
                return Err(Some(why));
            }
            if now.dialect.keeps_failed_only() && now.request != Request::Now {
                return Err(Some(Release::NotFailed));
            }
            Ok(())
        }
    }
}

/// The action for a machine that neither fails nor recovers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Its preservation starts.
    Start,
    /// It has failed, and is preserved if its owner's list allows it.
    StartFailed,
    /// It is drained.
    Drain,
    /// It stays preserved.
    Keep,
    /// Its preservation ends.
    Release(Release),
    /// The marks of its preservation are removed.
    Finish,
}

/// The rule for a machine that neither fails nor recovers now.
pub fn on_unchanged_phase(now: &Situation) -> Step {
    if now.phase == Some(Phase::Terminating) {
        return Step::Nothing;
    }
    match now.progress {
        PreservationProgress::Free => start(now),
        PreservationProgress::Releasing => {
            // The request of the ending preservation does not start another one.
            let same_request = now.recorded_request.is_some() && now.recorded_request == now.request.preservation();
            let new = !same_request && (!now.expired_before || now.expiry == Expiry::None);
            match start(now) {
                Step::Nothing => Step::Finish,
                step if new => step,
                _ => Step::Finish,
            }
        }
        PreservationProgress::Draining => match now.end() {
            Some(why) => Step::Release(why),
            None => Step::Drain,
        },
        PreservationProgress::Preserved => match preserved(now) {
            Some(why) => Step::Release(why),
            None => Step::Keep,
        },
    }
}

/// The rule for a machine that failed before it was preserved, given the answer of its owner's list.
pub fn started_late(now: &Situation, admission: Admission) -> Step {
    let kept = match admission {
        Admission::RollingOut => false,
        _ if !now.adopted => true,
        Admission::Open => now.vm,
        Admission::Full | Admission::NoList => false,
    };
    match now.progress {
        _ if kept => Step::StartFailed,
        // The marks of an earlier preservation, or of another controller, are removed in any case.
        PreservationProgress::Releasing => Step::Finish,
        _ if now.adopted => Step::Finish,
        _ => Step::Nothing,
    }
}

fn start(now: &Situation) -> Step {
    match now.request {
        Request::Now | Request::WhenFailed if now.is_failed() => Step::StartFailed,
        Request::Now => Step::Start,
        Request::None if now.adopted => Step::StartFailed,
        _ => Step::Nothing,
    }
}

fn preserved(now: &Situation) -> Option<Release> {
    if let Some(why) = now.end() {
        return Some(why);
    }
    if now.expiry == Expiry::None {
        return Some(Release::ExpiryRemoved);
    }
    let was_now = now.recorded_request == Some(PreservationRequest::Now) && now.request == Request::WhenFailed;
    let only_failed = now.dialect.keeps_failed_only() && now.request != Request::Now;
    (!now.is_failed() && (was_now || only_failed)).then_some(Release::NotFailed)
}
