//! Faults of a VM's kubelet, and the conditions that its Node shows besides the usual ones.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::later;

/// A fault of a kubelet. It has at most one fault of each [`FaultKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KubeletFault {
    /// It does not run; containers on its VM do.
    Stopped,
    /// It and its pods run, but it cannot reach the API server.
    Partitioned,
    /// It is frozen, and continues later as if no time had passed.
    Frozen,
    /// It alternates between down and up, starting with down.
    Flapping(Flapping),
    /// Delay of each of its API calls.
    Slow(Duration),
    /// After each start and outage it is not ready for this time.
    SlowRecovery(Duration),
    /// Offset of all times that it writes; negative: too early.
    ClockSkew(SignedDuration),
    /// It registers again after its Node was deleted.
    Zombie,
    /// It deletes a Node of its name that belongs to another VM, and registers its own.
    TakeOver,
}

/// Alternating between down and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flapping {
    /// Length of one cycle of down and up.
    pub period: Duration,
    /// Share of the period in which it is up, in percent; 1 to 99.
    pub up_percent: u32,
    /// The fault while it is down.
    pub down: Down,
}

/// The fault of a kubelet that is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Down {
    /// As [`KubeletFault::Stopped`].
    Stopped,
    /// As [`KubeletFault::Partitioned`].
    #[default]
    Partitioned,
    /// As [`KubeletFault::Frozen`].
    Frozen,
}

/// Kinds of faults, which exclude faults of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FaultKind {
    /// Stopped, partitioned, frozen or flapping.
    Outage,
    /// Slow.
    Slow,
    /// Slow recovery.
    SlowRecovery,
    /// Clock skew.
    ClockSkew,
    /// Zombie.
    Zombie,
    /// Take over.
    TakeOver,
}

/// Why a kubelet's fault is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeletFaultError {
    /// A duration is zero.
    #[error("{0} must be longer than zero, for example 30s")]
    TooShort(&'static str),
    /// A flapping kubelet changes too often.
    #[error("period must be at least 1s")]
    Period,
    /// A flapping kubelet is never up, or never down.
    #[error("upPercent is {0}, and must be from 1 to 99")]
    UpPercent(u32),
    /// The clock is right.
    #[error("by must not be zero, for example 30s")]
    NoOffset,
    /// The clock is too far off.
    #[error("by must be at most a year")]
    OffsetTooLong,
}

impl KubeletFault {
    /// The fault's kind.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Stopped | Self::Partitioned | Self::Frozen | Self::Flapping(_) => FaultKind::Outage,
            Self::Slow(_) => FaultKind::Slow,
            Self::SlowRecovery(_) => FaultKind::SlowRecovery,
            Self::ClockSkew(_) => FaultKind::ClockSkew,
            Self::Zombie => FaultKind::Zombie,
            Self::TakeOver => FaultKind::TakeOver,
        }
    }

    /// Checks the fault's values.
    ///
    /// # Errors
    /// The field and the fix.
    pub fn check(self) -> Result<(), KubeletFaultError> {
        let needed = |field: &'static str, span: Duration| match span.is_zero() {
            true => Err(KubeletFaultError::TooShort(field)),
            false => Ok(()),
        };
        match self {
            Self::Flapping(flapping) => {
                if flapping.period < Duration::from_secs(1) {
                    return Err(KubeletFaultError::Period);
                }
                if !(1..=99).contains(&flapping.up_percent) {
                    return Err(KubeletFaultError::UpPercent(flapping.up_percent));
                }
                Ok(())
            }
            Self::Slow(delay) => needed("delay", delay),
            Self::SlowRecovery(takes) => needed("delay", takes),
            Self::ClockSkew(offset) if offset.is_zero() => Err(KubeletFaultError::NoOffset),
            Self::ClockSkew(offset) if offset.abs() > SignedDuration::from_hours(24 * 366) => {
                Err(KubeletFaultError::OffsetTooLong)
            }
            Self::Stopped | Self::Partitioned | Self::Frozen | Self::ClockSkew(_) | Self::Zombie | Self::TakeOver => {
                Ok(())
            }
        }
    }
}

impl fmt::Display for KubeletFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Partitioned => f.write_str("partitioned"),
            Self::Frozen => f.write_str("frozen"),
            Self::Flapping(flapping) => write!(
                f,
                "flapping: {} for {} % of every {}",
                flapping.down.fault(),
                100 - flapping.up_percent,
                GoDuration(flapping.period)
            ),
            Self::Slow(delay) => write!(f, "slow: each API call {} later", GoDuration(*delay)),
            Self::SlowRecovery(takes) => {
                write!(
                    f,
                    "slow recovery: not ready for {} after each outage",
                    GoDuration(*takes)
                )
            }
            Self::ClockSkew(offset) => {
                let direction = if offset.is_negative() { "behind" } else { "ahead" };
                write!(f, "its clock is {} {direction}", GoDuration(offset.unsigned_abs()))
            }
            Self::Zombie => f.write_str("zombie: registers again when its Node is deleted"),
            Self::TakeOver => f.write_str("takes over the Node of another VM"),
        }
    }
}

impl Down {
    fn fault(self) -> KubeletFault {
        match self {
            Self::Stopped => KubeletFault::Stopped,
            Self::Partitioned => KubeletFault::Partitioned,
            Self::Frozen => KubeletFault::Frozen,
        }
    }

    fn availability(self) -> Availability {
        match self {
            Self::Stopped => Availability::Stopped,
            Self::Partitioned => Availability::Partitioned,
            Self::Frozen => Availability::Frozen,
        }
    }
}

/// Availability of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It runs and reaches the API server.
    Up,
    /// It does not run.
    Stopped,
    /// It runs and does not reach the API server.
    Partitioned,
    /// It is frozen.
    Frozen,
}

/// All faults of one kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletFaults {
    outage: Option<(KubeletFault, Timestamp)>,
    slow: Duration,
    recovery: Duration,
    skew: SignedDuration,
    zombie: bool,
    take_over: bool,
}

impl KubeletFaults {
    /// Sets a fault from `now` on; it replaces a fault of the same kind.
    pub fn set(&mut self, fault: KubeletFault, now: Timestamp) {
        match fault {
            KubeletFault::Stopped | KubeletFault::Partitioned | KubeletFault::Frozen | KubeletFault::Flapping(_) => {
                self.outage = Some((fault, now));
            }
            KubeletFault::Slow(delay) => self.slow = delay,
            KubeletFault::SlowRecovery(takes) => self.recovery = takes,
            KubeletFault::ClockSkew(offset) => self.skew = offset,
            KubeletFault::Zombie => self.zombie = true,
            KubeletFault::TakeOver => self.take_over = true,
        }
    }

    /// Removes the fault of a kind.
    pub fn remove(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::Outage => self.outage = None,
            FaultKind::Slow => self.slow = Duration::ZERO,
            FaultKind::SlowRecovery => self.recovery = Duration::ZERO,
            FaultKind::ClockSkew => self.skew = SignedDuration::ZERO,
            FaultKind::Zombie => self.zombie = false,
            FaultKind::TakeOver => self.take_over = false,
        }
    }

    /// All faults.
    pub fn list(&self) -> Vec<KubeletFault> {
        let mut all = Vec::new();
        all.extend(self.outage.map(|(fault, _)| fault));
        all.extend((!self.slow.is_zero()).then_some(KubeletFault::Slow(self.slow)));
        all.extend((!self.recovery.is_zero()).then_some(KubeletFault::SlowRecovery(self.recovery)));
        all.extend((!self.skew.is_zero()).then_some(KubeletFault::ClockSkew(self.skew)));
        all.extend(self.zombie.then_some(KubeletFault::Zombie));
        all.extend(self.take_over.then_some(KubeletFault::TakeOver));
        all
    }

    /// Whether a command stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.outage, Some((KubeletFault::Stopped, _)))
    }

    /// Availability at `now`, and the time of the next change.
    pub fn availability(&self, now: Timestamp) -> (Availability, Option<Timestamp>) {
        match self.outage {
            Some((KubeletFault::Stopped, _)) => (Availability::Stopped, None),
            Some((KubeletFault::Partitioned, _)) => (Availability::Partitioned, None),
            Some((KubeletFault::Frozen, _)) => (Availability::Frozen, None),
            Some((KubeletFault::Flapping(flapping), since)) => flapping.at(since, now),
            Some(_) | None => (Availability::Up, None),
        }
    }

    /// Delay of each API call.
    pub fn slow(&self) -> Duration {
        self.slow
    }

    /// How long it is not ready after a start or outage.
    pub fn recovery(&self) -> Duration {
        self.recovery
    }

    /// The time of its clock at `now`.
    pub fn clock(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.skew).unwrap_or(now)
    }

    /// Whether it registers again after its Node was deleted.
    pub fn zombie(&self) -> bool {
        self.zombie
    }

    /// Whether it deletes a Node of its name that belongs to another VM.
    pub fn take_over(&self) -> bool {
        self.take_over
    }
}

impl Flapping {
    fn at(self, since: Timestamp, now: Timestamp) -> (Availability, Option<Timestamp>) {
        let period = self.period.as_nanos().max(1);
        let elapsed = u128::try_from(now.duration_since(since).as_nanos()).unwrap_or_default();
        let (round, place) = (elapsed / period, elapsed % period);
        let down = period * u128::from(100 - self.up_percent.min(100)) / 100;
        let after = |nanos: u128| later(since, Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        if place < down {
            (self.down.availability(), Some(after(round * period + down)))
        } else {
            (Availability::Up, Some(after((round + 1) * period)))
        }
    }
}

/// A condition for a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Empty: the default for type and status.
    pub reason: String,
    /// A human-readable message; empty: the default.
    pub message: String,
}

/// Why a condition is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConditionError {
    #[error("type: {0:?} is not a condition type; write one such as DiskPressure or KernelDeadlock")]
    Type(String),
    #[error("status: {0:?} is not a status; write True, False or Unknown")]
    Status(String),
}

/// Checks type and status of a condition.
pub(super) fn check_condition(kind: &str, condition: &NodeCondition) -> Result<(), ConditionError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/');
    if kind.is_empty() || kind.len() > 253 || !kind.bytes().all(known) {
        return Err(ConditionError::Type(kind.to_owned()));
    }
    if !["True", "False", "Unknown"].contains(&condition.status.as_str()) {
        return Err(ConditionError::Status(condition.status.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn flapping(up_percent: u32, down: Down) -> KubeletFault {
        KubeletFault::Flapping(Flapping {
            period: Duration::from_secs(100),
            up_percent,
            down,
        })
    }

    #[rstest]
    #[case::down_first(10, Availability::Frozen, 80)]
    #[case::the_last_moment_down(79, Availability::Frozen, 80)]
    #[case::up(80, Availability::Up, 110)]
    #[case::down_again(110, Availability::Frozen, 180)]
    #[case::far_later(1000 + 95, Availability::Up, 1110)]
    fn a_flapping_kubelet_is_down_first_in_each_period(
        #[case] now: i64,
        #[case] expected: Availability,
        #[case] until: i64,
    ) {
        let mut faults = KubeletFaults::default();
        faults.set(flapping(30, Down::Frozen), at(10));
        assert_eq!(faults.availability(at(now)), (expected, Some(at(until))));
    }

    #[test]
    fn faults_of_one_kind_replace_each_other_and_others_stay() {
        let mut faults = KubeletFaults::default();
        faults.set(KubeletFault::Stopped, at(0));
        faults.set(KubeletFault::Zombie, at(0));
        faults.set(KubeletFault::Frozen, at(1));
        assert_eq!(faults.list(), [KubeletFault::Frozen, KubeletFault::Zombie]);
        assert!(!faults.is_stopped());
        faults.remove(FaultKind::Outage);
        faults.remove(FaultKind::Zombie);
        assert_eq!(faults, KubeletFaults::default());
    }

    #[test]
    fn every_fault_is_listed_as_set_and_removed_by_its_kind() {
        let all = [
            KubeletFault::Stopped,
            KubeletFault::Partitioned,
            KubeletFault::Frozen,
            flapping(50, Down::Stopped),
            KubeletFault::Slow(Duration::from_secs(1)),
            KubeletFault::SlowRecovery(Duration::from_secs(1)),
            KubeletFault::ClockSkew(SignedDuration::from_secs(-3)),
            KubeletFault::Zombie,
            KubeletFault::TakeOver,
        ];
        for fault in all {
            let mut faults = KubeletFaults::default();
            faults.set(fault, at(0));
            assert_eq!(faults.list(), [fault]);
            faults.remove(fault.kind());
            assert_eq!(faults, KubeletFaults::default());
        }
    }
}
