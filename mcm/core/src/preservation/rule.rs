//! The rule: what preservation means for a machine, from what is known of it.
//!
//! Three questions: what becomes of a machine that fails, of one that recovers, and of one that stays as it is.

use mcm_api::{Phase, PreservedBy};

use super::{Asked, Dialect, Request};

/// How far a machine's preservation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// It is not preserved.
    #[default]
    Free,
    /// It failed, and its pods leave.
    Draining,
    /// It is kept.
    Preserved,
    /// Its preservation ends.
    Releasing,
}

/// How a machine's expiry stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// There is none.
    #[default]
    None,
    /// It is to come.
    Ahead,
    /// It has passed.
    Over,
}

/// Whether a failing machine may be kept, as its owner's list says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// It may, also when nobody asks.
    Open,
    /// Only when somebody asks, or did before: the maximum is reached.
    Full,
    /// It is replaced, whoever asks: a rollout is under way.
    RollingOut,
    /// Only when somebody asks: nobody counts.
    #[default]
    Nobody,
}

/// A machine as far as preservation goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// Whose words apply.
    pub dialect: Dialect,
    /// Its phase, without the sub-phase.
    pub phase: Option<Phase>,
    /// How far it is.
    pub track: Track,
    /// Who asked for the preservation that there is; `None`: it is not recorded.
    pub by: Option<PreservedBy>,
    /// With which word. While it ends: the word that stands since then.
    pub asked: Option<Asked>,
    /// Its expiry.
    pub expiry: Expiry,
    /// What is asked for now.
    pub request: Request,
    /// Whether the maximum was lowered below it.
    pub marked: bool,
    /// Whether its release is one by expiry, whose request has still to be removed.
    pub expired_before: bool,
    /// Whether its pods leave once more: it failed with an expiry from before.
    pub relapse: bool,
    /// Whether it failed, and nothing but another controller's word says that it is kept: that one was about to.
    pub adopted: bool,
    /// Whether it has a VM that can be kept.
    pub vm: bool,
}

impl Situation {
    fn is_failed(&self) -> bool {
        self.phase == Some(Phase::Failed)
    }

    fn is_automatic(&self) -> bool {
        self.by == Some(PreservedBy::Auto)
    }

    /// Why a preservation that is under way ends; `None`: it goes on.
    fn end(&self) -> Option<Release> {
        let asked = self.request.asked();
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
        if self.marked && self.is_automatic() && asked.is_none() {
            return Some(Release::MaximumLowered);
        }
        if self.track == Track::Draining && self.relapse && self.expiry == Expiry::None {
            return Some(Release::ExpiryRemoved);
        }
        None
    }
}

/// Why a preservation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Release {
    /// Its time is over.
    #[error("its time is over")]
    Expired,
    /// `false`.
    #[error("the annotation says false")]
    Refused,
    /// The annotation that asked for it is gone.
    #[error("the annotation that asked for it was removed")]
    Removed,
    /// `when-failed` in the place of `now`.
    #[error("the annotation says when-failed now, and the machine has not failed")]
    NotFailed,
    /// The maximum of automatic ones was lowered.
    #[error("the maximum was lowered")]
    MaximumLowered,
    /// A rollout replaces what fails.
    #[error("a rollout is under way, and the machine failed")]
    RollingOut,
    /// The expiry was removed by hand.
    #[error("its expiry was removed")]
    ExpiryRemoved,
    /// The dialect is off.
    #[error("preservation is off")]
    Off,
}

impl Release {
    /// One word for the machine's status.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expired => "Expired",
            Self::Refused => "Refused",
            Self::Removed => "Removed",
            Self::NotFailed => "NotFailed",
            Self::MaximumLowered => "MaximumLowered",
            Self::RollingOut => "RollingOut",
            Self::ExpiryRemoved => "ExpiryRemoved",
            Self::Off => "Off",
        }
    }
}

/// What becomes of a machine that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is replaced, as any other.
    Replace,
    /// It is kept: nobody asked.
    Keep,
    /// It is kept: somebody asks, or did before.
    KeepAsked,
    /// Its preservation ends with it.
    Release(Release),
}

/// What becomes of a machine that fails now.
pub fn on_failure(now: &Situation, gate: Gate) -> Failure {
    let held = now.track != Track::Releasing && now.expiry != Expiry::None;
    if let Some(why) = now.end().filter(|_| held) {
        return Failure::Release(why);
    }
    let asked = now.request.asked().is_some();
    if now.dialect == Dialect::Off || now.request == Request::Refused {
        return Failure::Replace;
    }
    match gate {
        Gate::RollingOut if held => Failure::Release(Release::RollingOut),
        Gate::RollingOut => Failure::Replace,
        _ if asked || held => Failure::KeepAsked,
        Gate::Open if now.vm => Failure::Keep,
        Gate::Open | Gate::Full | Gate::Nobody => Failure::Replace,
    }
}

/// Whether a machine that was Failed and is healthy again stays preserved; otherwise why not.
///
/// # Errors
/// Why its preservation ends; `None`: it had none.
pub fn on_recovery(now: &Situation) -> Result<(), Option<Release>> {
    match now.track {
        Track::Free => Err(None),
        Track::Releasing => Err(None),
        Track::Draining | Track::Preserved => {
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

/// What is to be done about a machine that neither fails nor recovers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// It is preserved from here on.
    Start,
    /// It has failed, and is preserved if its owner's list lets it.
    StartFailed,
    /// Its pods leave.
    Drain,
    /// It stays preserved.
    Keep,
    /// Its preservation ends.
    Release(Release),
    /// What the preservation left is taken back.
    Finish,
}

/// What is to be done now.
pub fn standing(now: &Situation) -> Step {
    if now.phase == Some(Phase::Terminating) {
        return Step::Nothing;
    }
    match now.track {
        Track::Free => start(now),
        Track::Releasing => {
            // What asked for the preservation that ends asks for no other one.
            let known = now.asked.is_some() && now.asked == now.request.asked();
            let new = !known && (!now.expired_before || now.expiry == Expiry::None);
            match start(now) {
                Step::Nothing => Step::Finish,
                step if new => step,
                _ => Step::Finish,
            }
        }
        Track::Draining => match now.end() {
            Some(why) => Step::Release(why),
            None => Step::Drain,
        },
        Track::Preserved => match preserved(now) {
            Some(why) => Step::Release(why),
            None => Step::Keep,
        },
    }
}

/// What is done about a machine that has failed before anybody kept it, as its owner's list says.
pub fn started_late(now: &Situation, gate: Gate) -> Step {
    let kept = match gate {
        Gate::RollingOut => false,
        _ if !now.adopted => true,
        Gate::Open => now.vm,
        Gate::Full | Gate::Nobody => false,
    };
    match now.track {
        _ if kept => Step::StartFailed,
        // What the preservation before left, or another controller's word, is taken back all the same.
        Track::Releasing => Step::Finish,
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
    let was_now = now.asked == Some(Asked::Now) && now.request == Request::WhenFailed;
    let only_failed = now.dialect.keeps_failed_only() && now.request != Request::Now;
    (!now.is_failed() && (was_now || only_failed)).then_some(Release::NotFailed)
}
