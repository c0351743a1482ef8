//! Whether the API servers can be relied on, and what follows when they cannot.
//!
//! A controller that sees only a part of the world takes what it does not see for gone. So both API servers are asked
//! now and then; while either has not answered for the timeout the controller is frozen: it makes, changes and deletes
//! no VM. When both answer again the machines that became Unknown meanwhile begin anew, because nobody knows for how
//! long they were unhealthy.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::Machine;
use mcm_api::machine::{LastOperation, MachineStatus, Operation, Phase, State};

/// Upstream's text in the status of a machine that begins anew.
pub const RESET_TEXT: &str = "Machine Health Timeout was reset due to APIServer being unreachable";

/// How often the servers are asked, and how long they may be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Between two questions while all is well.
    pub period: Duration,
    /// How long a server may be away before the controller freezes.
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

/// What is known of the API servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiHealth {
    /// Not asked yet.
    #[default]
    Unknown,
    /// Both answered the last question.
    Up,
    /// One has not answered since then, and that is not long yet.
    Down {
        /// When the first question without an answer was asked.
        since: Timestamp,
    },
    /// One was away for longer than the timeout, and the controller has not begun anew yet.
    Frozen,
}

/// What to do after a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// What is known now.
    pub health: ApiHealth,
    /// Whether machines are to begin anew first; when that fails, the controller stays frozen and asks again.
    pub thaw: bool,
    /// When to ask again.
    pub wake: Duration,
}

impl ApiHealth {
    /// Whether no VM may be touched.
    pub fn is_frozen(self) -> bool {
        self == Self::Frozen
    }

    /// What follows from a question that was asked at `asked` and had come back, or not, at `now`.
    pub fn after(self, answered: bool, asked: Timestamp, now: Timestamp, settings: &Settings) -> Next {
        let next = |health, thaw, wake| Next { health, thaw, wake };
        // Frozen or about to be, the moment at which it changes matters more than a request.
        let soon = settings.timeout / 5;
        match (self, answered) {
            (Self::Frozen, true) => next(Self::Frozen, true, soon),
            (_, true) => next(Self::Up, false, settings.period),
            (Self::Frozen, false) => next(Self::Frozen, false, soon),
            (known, false) => {
                let since = match known {
                    Self::Down { since } => since,
                    _ => asked,
                };
                let away = Duration::try_from(now.duration_since(since)).unwrap_or_default();
                if away >= settings.timeout {
                    next(Self::Frozen, false, soon)
                } else {
                    next(Self::Down { since }, false, soon.min(settings.timeout - away))
                }
            }
        }
    }
}

/// The status with which a machine begins anew after an outage; `None`: it was not Unknown. An expiry of its
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

    /// The states after questions, each asked at a second and answered, or not, at once.
    fn story(questions: &[(i64, bool)]) -> Vec<ApiHealth> {
        let mut health = ApiHealth::Unknown;
        questions
            .iter()
            .map(|(second, answered)| {
                let next = health.after(*answered, at(*second), at(*second), &SETTINGS);
                health = if next.thaw { ApiHealth::Up } else { next.health };
                health
            })
            .collect()
    }

    #[test]
    fn an_outage_longer_than_the_timeout_freezes_and_an_answer_thaws() {
        let down = ApiHealth::Down { since: at(60) };
        assert_eq!(
            story(&[
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
        let states = story(&[(0, true), (60, false), (70, true), (3600, false), (3610, false)]);
        assert_eq!(states.last(), Some(&ApiHealth::Down { since: at(3600) }));
    }

    #[test]
    fn a_question_that_takes_longer_than_the_timeout_counts_from_when_it_was_asked() {
        let next = ApiHealth::Up.after(false, at(0), at(30), &SETTINGS);
        assert_eq!(next.health, ApiHealth::Frozen);
    }

    #[test]
    fn the_next_question_comes_no_later_than_the_freeze() {
        let next = ApiHealth::Down { since: at(0) }.after(false, at(27), at(28), &SETTINGS);
        assert_eq!(next.wake, Duration::from_secs(2));
        let next = ApiHealth::Up.after(true, at(0), at(0), &SETTINGS);
        assert_eq!(next.wake, Duration::from_secs(60));
    }

    #[test]
    fn before_the_first_answer_nothing_is_known() {
        assert_eq!(story(&[(0, false)]), [ApiHealth::Down { since: at(0) }]);
        assert!(!ApiHealth::Unknown.is_frozen());
    }

    #[test]
    fn an_unknown_machine_begins_anew_and_keeps_its_preservation() {
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
    fn a_machine_in_another_phase_or_on_its_way_out_stays_as_it_is() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = Some(Phase::Pending);
        assert_eq!(begun_anew(&machine, at(0)), None);
        machine.status.current_status.phase = Some(Phase::Unknown);
        machine.metadata.deletion_timestamp = Some(Time(at(0)));
        assert_eq!(begun_anew(&machine, at(0)), None);
    }
}
