//! Decides when a simulated world goes on: paused, one event at a time, at a speed, or to the end. Pure: it knows no clock and no
//! thread.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The slowest and the fastest speed that is not "as fast as possible": virtual seconds per second.
const SPEEDS: [f64; 2] = [1.0, 10_000.0];
/// The speed at first: a minute each second.
const FIRST_SPEED: Speed = Speed::Times(60.0);
/// The word for "as fast as possible".
const MAX: &str = "max";

/// Something that is about to happen in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its virtual time.
    pub at: Timestamp,
    /// The number of events that are recorded so far.
    pub recorded: u64,
    /// Whether it is a step of the scenario.
    pub is_step: bool,
    /// Whether timed steps of the plan are due before it.
    pub is_after_due_steps: bool,
}

/// A place in the history of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The time since the start of the scenario.
    pub(crate) at: Duration,
    /// The number of events that are recorded before.
    pub(crate) recorded: u64,
}

/// Whether something may happen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It may.
    Open,
    /// It may after this time, if no command comes before.
    After(Duration),
    /// It may after a command.
    Closed,
}

/// How fast virtual time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// Virtual seconds per second.
    Times(f64),
    /// As fast as possible.
    Max,
}

impl Serialize for Speed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Times(times) => serializer.serialize_f64(*times),
            Self::Max => serializer.serialize_str(MAX),
        }
    }
}

/// What the page asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandRequest {
    action: String,
    #[serde(default)]
    speed: Option<Value>,
}

/// A command of the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Command {
    Pause,
    Resume,
    /// Goes on until one more event is recorded.
    Event,
    /// Goes on until the next step of the scenario.
    Step,
    /// Goes on until a violation ends the run, or to the end.
    End,
    Speed(Speed),
}

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("action: there is no {0:?}; there is pause, resume, event, step, end and speed")]
    Action(String),
    #[error("speed: {0} is no speed; give a number from 1 to 10000, or \"max\"")]
    Speed(String),
    #[error("speed: it is for the action \"speed\", not for {0:?}")]
    UnusedSpeed(String),
    #[error("the run has ended; start `drydock play` again to see it from the beginning")]
    Ended,
    #[error("the scenario has not started yet")]
    NotStarted,
}

impl Command {
    /// Checks a request.
    pub(crate) fn of(request: &CommandRequest) -> Result<Self, CommandError> {
        let command = match request.action.as_str() {
            "speed" => {
                let speed = request.speed.clone().unwrap_or_default();
                return speed_of(&speed)
                    .map(Self::Speed)
                    .ok_or_else(|| CommandError::Speed(speed.to_string()));
            }
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "event" => Self::Event,
            "step" => Self::Step,
            "end" => Self::End,
            other => return Err(CommandError::Action(other.to_owned())),
        };
        match request.speed {
            None => Ok(command),
            Some(_) => Err(CommandError::UnusedSpeed(request.action.clone())),
        }
    }
}

fn speed_of(value: &Value) -> Option<Speed> {
    if value == MAX {
        return Some(Speed::Max);
    }
    let [slowest, fastest] = SPEEDS;
    let times = value.as_f64()?;
    (slowest..=fastest).contains(&times).then_some(Speed::Times(times))
}

/// Until when a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Paused,
    /// Until more than this number of events is recorded.
    Beyond(u64),
    /// As fast as possible to the next step of the scenario.
    ToStep,
    /// As fast as possible until the fault at this place has begun.
    Replays {
        fault: Place,
        then: Then,
    },
    /// As fast as possible to the end.
    ToEnd,
    /// At the chosen speed.
    Runs,
}

/// What a run does after the fault with which it began again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Paused,
    Runs,
    ToStep,
    ToEnd,
}

impl Then {
    fn mode(self) -> Mode {
        match self {
            Self::Paused => Mode::Paused,
            Self::Runs => Mode::Runs,
            Self::ToStep => Mode::ToStep,
            Self::ToEnd => Mode::ToEnd,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEnd {
    /// Whether it passed.
    pub passed: bool,
    /// The result in one sentence.
    pub sentence: String,
}

/// What the page shows of a playback.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// Grows with each change. A response and the stream of changes may arrive in any order; the page ignores what is older.
    revision: u64,
    state: &'static str,
    /// Virtual microseconds since the start of the scenario.
    at: i64,
    /// The time of the event that waits for its time; the page counts up to it.
    until: Option<i64>,
    speed: Speed,
    pub(crate) end: Option<RunEnd>,
}

/// The state of a playback.
#[derive(Debug)]
pub(crate) struct Playback {
    mode: Mode,
    speed: Speed,
    /// The start of the scenario.
    started: Timestamp,
    /// A time by the wall clock, and the virtual time that it had.
    anchor: (Timestamp, Timestamp),
    /// What waits.
    waiting: Option<Arrival>,
    recorded: u64,
    pub(crate) end: Option<RunEnd>,
    revision: u64,
    /// The number of the run: each one begins with the same history and has more faults than the one before.
    run: u64,
    has_begun: bool,
}

impl Playback {
    /// A world that goes on until the first step of its scenario, where it waits. `now` is the time by the wall clock.
    pub(crate) fn new(now: Timestamp, started: Timestamp) -> Self {
        Self {
            mode: Mode::ToStep,
            speed: FIRST_SPEED,
            started,
            anchor: (now, started),
            waiting: None,
            recorded: 0,
            end: None,
            revision: 0,
            run: 0,
            has_begun: false,
        }
    }

    /// The number of the current run.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// The virtual time at which the scenario started.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// The place of a fault that a user injects now: after everything that has happened.
    pub(crate) fn place_of_fault(&self, now: Timestamp) -> Result<Place, CommandError> {
        if self.end.is_some() {
            return Err(CommandError::Ended);
        }
        if let Mode::Replays { fault, .. } = self.mode {
            return Ok(fault);
        }
        if !self.has_begun {
            return Err(CommandError::NotStarted);
        }
        let passed = self.virtual_now(now).duration_since(self.started);
        Ok(Place {
            at: Duration::try_from(passed).unwrap_or_default(),
            recorded: self.recorded,
        })
    }

    /// Another run takes the place of this one: it goes on as fast as possible to a fault at that place, and then as this one.
    /// Returns the virtual time of the fault.
    pub(crate) fn replay_to(&mut self, fault: Place) -> Timestamp {
        let at = SignedDuration::try_from(fault.at).unwrap_or(SignedDuration::MAX);
        let then = match self.mode {
            Mode::Replays { then, .. } => then,
            Mode::Runs => Then::Runs,
            _ => Then::Paused,
        };
        self.mode = Mode::Replays { fault, then };
        self.run += 1;
        self.recorded = 0;
        self.waiting = None;
        self.has_begun = false;
        self.revision += 1;
        self.started.saturating_add(at).unwrap_or(Timestamp::MAX)
    }

    /// The scenario starts.
    pub(crate) fn begin(&mut self, now: Timestamp, started: Timestamp) {
        self.started = started;
        self.has_begun = true;
        self.anchor = (now, started);
        self.revision += 1;
    }

    /// The run has ended at that virtual time.
    pub(crate) fn finish(&mut self, at: Timestamp, end: RunEnd) {
        self.mode = Mode::Paused;
        self.waiting = None;
        self.anchor.1 = self.anchor.1.max(at);
        self.end = Some(end);
        self.revision += 1;
    }

    /// Whether something may happen now.
    pub(crate) fn arrive(&mut self, now: Timestamp, arrival: Arrival) -> Gate {
        self.recorded = arrival.recorded;
        self.revision += 1;
        self.mode = match self.mode {
            Mode::Beyond(count) if arrival.recorded > count => Mode::Paused,
            Mode::ToStep if arrival.is_step && self.waiting != Some(arrival) => Mode::Paused,
            Mode::Replays { fault, then } if arrival.recorded > fault.recorded && !arrival.is_after_due_steps => {
                then.mode()
            }
            mode => mode,
        };
        let gate = match (self.mode, self.speed) {
            (Mode::Paused, _) => Gate::Closed,
            (Mode::Runs, Speed::Times(times)) => self.remaining(now, arrival.at, times),
            (Mode::Runs, Speed::Max) | (Mode::Beyond(_) | Mode::ToStep | Mode::Replays { .. } | Mode::ToEnd, _) => {
                Gate::Open
            }
        };
        self.waiting = Some(arrival);
        if gate == Gate::Open {
            self.anchor = (now, arrival.at);
            self.waiting = None;
        }
        gate
    }

    /// The wall time until the virtual time `at` at a speed.
    fn remaining(&self, now: Timestamp, at: Timestamp, times: f64) -> Gate {
        let (wall, virtual_time) = self.anchor;
        let due = at.duration_since(virtual_time).as_secs_f64() / times;
        let passed = now.duration_since(wall).as_secs_f64();
        match Duration::try_from_secs_f64(due - passed) {
            // What waits for less than a millisecond does not wait at all.
            Ok(left) if left >= Duration::from_millis(1) => Gate::After(left),
            _ => Gate::Open,
        }
    }

    /// Performs a command.
    pub(crate) fn command(&mut self, now: Timestamp, command: Command) -> Result<(), CommandError> {
        if self.end.is_some() {
            return Err(CommandError::Ended);
        }
        // What passed so far passed at the old speed.
        self.anchor = (now, self.virtual_now(now));
        if let Mode::Replays { then, .. } = &mut self.mode {
            // The history is repeated first. The event after which it goes on is the fault.
            match command {
                Command::Pause | Command::Event => *then = Then::Paused,
                Command::Resume => *then = Then::Runs,
                Command::Step => *then = Then::ToStep,
                Command::End => *then = Then::ToEnd,
                Command::Speed(speed) => self.speed = speed,
            }
            self.revision += 1;
            return Ok(());
        }
        match command {
            Command::Pause => self.mode = Mode::Paused,
            Command::Resume => self.mode = Mode::Runs,
            Command::Event => self.mode = Mode::Beyond(self.recorded),
            Command::Step => self.mode = Mode::ToStep,
            Command::End => self.mode = Mode::ToEnd,
            Command::Speed(speed) => self.speed = speed,
        }
        self.revision += 1;
        Ok(())
    }

    /// The virtual time: between two events it passes at the chosen speed.
    pub(crate) fn virtual_now(&self, now: Timestamp) -> Timestamp {
        let (wall, virtual_time) = self.anchor;
        let (Mode::Runs, Speed::Times(times), Some(waiting)) = (self.mode, self.speed, self.waiting) else {
            return virtual_time;
        };
        let passed = now.duration_since(wall).as_secs_f64().max(0.0) * times;
        let passed = SignedDuration::try_from_secs_f64(passed).unwrap_or(SignedDuration::MAX);
        let then = virtual_time.saturating_add(passed).unwrap_or(Timestamp::MAX);
        then.min(waiting.at).max(virtual_time)
    }

    /// What the page shows.
    pub(crate) fn status(&self, now: Timestamp) -> Status {
        let micros = |at: Timestamp| i64::try_from(at.duration_since(self.started).as_micros()).unwrap_or(i64::MAX);
        let state = match (&self.end, self.mode) {
            (Some(_), _) => "ended",
            (None, Mode::Paused) => "paused",
            (None, Mode::Runs) => "runs",
            (None, Mode::Beyond(_) | Mode::ToStep | Mode::Replays { .. } | Mode::ToEnd) => "seeks",
        };
        Status {
            revision: self.revision,
            state,
            at: micros(self.virtual_now(now)).max(0),
            until: self
                .waiting
                .filter(|_| self.mode == Mode::Runs)
                .map(|waiting| micros(waiting.at)),
            speed: self.speed,
            end: self.end.clone(),
        }
    }
}

#[cfg(test)]
#[path = "playback_tests.rs"]
mod tests;
