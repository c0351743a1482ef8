//! The health of the API servers, and the freeze during an outage.
//!
//! A controller with an incomplete view takes missing objects for deleted. So both API servers are probed periodically;
//! while either has not answered for the timeout, the controller is frozen: it creates, updates and deletes no VM. Once
//! both answer again, the health timeout of Unknown machines is reset, because it is not known for how long they were
//! unhealthy.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::Machine;
use mcm_api::machine::{LastOperation, MachineStatus, Operation, Phase, State};

/// Upstream's text in the status of a machine whose health timeout was reset.
pub const RESET_TEXT: &str = "Machine Health Timeout was reset due to APIServer being unreachable";

/// The period of the probes, and the tolerated outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Between two probes while both servers answer.
    pub period: Duration,
    /// How long a server may not answer before the controller freezes.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_mins(1),
            timeout: Duration::from_secs(30),
        }
    }
}

/// The observed health of the API servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiHealth {
    /// Not probed yet.
    #[default]
    Unknown,
    /// Both answered the last probe.
    Up,
    /// One does not answer, for less than the timeout.
    Down {
        /// When the first probe without an answer was sent.
        since: Timestamp,
    },
    /// One did not answer for longer than the timeout, and the controller has not resumed yet.
    Frozen,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The new health.
    pub health: ApiHealth,
    /// Whether machines must be reset before the controller resumes; if that fails, it stays frozen and probes again.
    pub thaw: bool,
    /// When the next probe is due.
    pub wake: Duration,
}

impl ApiHealth {
    /// Whether no VM may be created, updated or deleted.
    pub fn is_frozen(self) -> bool {
        self == Self::Frozen
    }

    /// The result of a probe that was sent at `sent` and answered, or not, by `now`.
    pub fn after(self, answered: bool, sent: Timestamp, now: Timestamp, settings: &Settings) -> Next {
        let next = |health, thaw, wake| Next { health, thaw, wake };
        // During an outage, a fast reaction matters more than the cost of a request.
        let soon = settings.timeout / 5;
        match (self, answered) {
            (Self::Frozen, true) => next(Self::Frozen, true, soon),
            (_, true) => next(Self::Up, false, settings.period),
            (Self::Frozen, false) => next(Self::Frozen, false, soon),
            (known, false) => {
                let since = match known {
                    Self::Down { since } => since,
                    _ => sent,
                };
                let outage = Duration::try_from(now.duration_since(since)).unwrap_or_default();
                if outage >= settings.timeout {
                    next(Self::Frozen, false, soon)
                } else {
                    next(Self::Down { since }, false, soon.min(settings.timeout - outage))
                }
            }
        }
    }
}

/// The status that resets the health timeout of a machine after an outage; `None`: it is not Unknown. The expiry of its
/// preservation stays.
pub fn begun_anew(machine: &Machine, now: Timestamp) -> Option<MachineStatus> {
    let mut status = machine.status.clone();
    if status.current_status.phase != Some(Phase::Unknown) || machine.metadata.deletion_timestamp.is_some() {
        return None;
    }
    status.current_status.phase = Some(Phase::Running);
    status.current_status.timeout_active = false;
    status.current_status.last_update_time = Some(Time(now));
    status.last_operation = Some(LastOperation {
        description: RESET_TEXT.to_owned(),
        error_code: String::new(),
        last_update_time: Some(Time(now)),
        state: Some(State::Successful),
        operation: Some(Operation::HealthCheck),
    });
    Some(status)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn later(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    const SETTINGS: Settings = Settings {
        period: Duration::from_secs(60),
        timeout: Duration::from_secs(30),
    };

    /// The health after probes, each sent at a second and answered, or not, at once.
    fn health_after(probes: &[(i64, bool)]) -> Vec<ApiHealth> {
        let mut health = ApiHealth::Unknown;
        probes
            .iter()
            .map(|(second, answered)| {
                let next = health.after(*answered, at(*second), at(*second), &SETTINGS);
                health = if next.thaw { ApiHealth::Up } else { next.health };
                health
            })
            .collect()
    }

    #[test]
    fn an_outage_longer_than_the_timeout_freezes_until_an_answer() {
        let down = ApiHealth::Down { since: at(60) };
        assert_eq!(
            health_after(&[
                (0, true),
                (60, false),
                (66, false),
                (89, false),
                (90, false),
                (96, true)
            ]),
            [ApiHealth::Up, down, down, down, ApiHealth::Frozen, ApiHealth::Up]
        );
    }

    #[test]
    fn two_short_outages_far_apart_do_not_add_up() {
        let states = health_after(&[(0, true), (60, false), (70, true), (3600, false), (3610, false)]);
        assert_eq!(states.last(), Some(&ApiHealth::Down { since: at(3600) }));
    }

    #[test]
    fn the_outage_counts_from_when_the_probe_was_sent() {
        let next = ApiHealth::Up.after(false, at(0), at(30), &SETTINGS);
        assert_eq!(next.health, ApiHealth::Frozen);
    }

    #[test]
    fn the_next_probe_is_due_no_later_than_the_freeze() {
        let next = ApiHealth::Down { since: at(0) }.after(false, at(27), at(28), &SETTINGS);
        assert_eq!(next.wake, Duration::from_secs(2));
        let next = ApiHealth::Up.after(true, at(0), at(0), &SETTINGS);
        assert_eq!(next.wake, Duration::from_secs(60));
    }

    #[test]
    fn an_outage_before_the_first_answer_does_not_freeze_at_once() {
        assert_eq!(health_after(&[(0, false)]), [ApiHealth::Down { since: at(0) }]);
        assert!(!ApiHealth::Unknown.is_frozen());
    }

    #[test]
    fn the_reset_of_an_unknown_machine_keeps_its_preservation() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = Some(Phase::Unknown);
        machine.status.current_status.timeout_active = true;
        let expiry = Time(at(0).checked_add(later(9)).unwrap());
        machine.status.current_status.preserve_expiry_time = Some(expiry.clone());
        let status = begun_anew(&machine, at(5)).unwrap();
        assert_eq!(status.current_status.phase, Some(Phase::Running));
        assert!(!status.current_status.timeout_active);
        assert_eq!(status.current_status.preserve_expiry_time, Some(expiry));
        assert_eq!(status.last_operation.unwrap().description, RESET_TEXT);
    }

    #[test]
    fn a_machine_in_another_phase_or_being_deleted_is_not_reset() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = Some(Phase::Pending);
        assert_eq!(begun_anew(&machine, at(0)), None);
        machine.status.current_status.phase = Some(Phase::Unknown);
        machine.metadata.deletion_timestamp = Some(Time(at(0)));
        assert_eq!(begun_anew(&machine, at(0)), None);
    }
}
