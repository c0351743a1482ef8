//! Performs the timed steps of a plan, whatever the scenario does at their times.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use judge::Failure;
use scenario::plan::Disturbance;
use scenario::step::{Crash, Request};
use scenario::{Step, Timeouts};
use stage::Stage;

use super::Engine;
use super::steps::StepError;

/// The time after which fewer events than expected do not hold up a step any more.
const MOMENT: SignedDuration = SignedDuration::from_micros(1);

/// The timed steps of a plan: those that are not performed yet, in order of time, and those that were.
#[derive(Debug, Default)]
pub(super) struct TimedSteps {
    due: VecDeque<Due>,
    /// Those that were performed, by their index among the disturbances of the plan, with the crashes that they armed.
    pub(super) performed: BTreeMap<usize, (Step, Vec<Crash>)>,
}

#[derive(Debug)]
struct Due {
    at: Timestamp,
    after_events: u64,
    disturbance: usize,
    step: Step,
}

impl TimedSteps {
    /// Those of a plan whose scenario starts at `started`.
    pub(super) fn of(disturbances: &[Disturbance], started: Timestamp, timeouts: &Timeouts) -> Self {
        let due = |(disturbance, what): (usize, &Disturbance)| {
            let Disturbance::Step(timed) = what else {
                return None;
            };
            let after = SignedDuration::try_from(timed.at.value(timeouts)).unwrap_or(SignedDuration::MAX);
            Some(Due {
                at: started.saturating_add(after).unwrap_or(Timestamp::MAX),
                after_events: timed.after_events.unwrap_or_default(),
                disturbance,
                step: timed.step.clone(),
            })
        };
        let mut due: Vec<Due> = disturbances.iter().enumerate().filter_map(due).collect();
        due.sort_by_key(|due| (due.at, due.after_events));
        Self {
            due: due.into(),
            performed: BTreeMap::new(),
        }
    }

    /// When the next one is due, if not before by its number of events: a moment after its time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let due = self.due.front()?;
        match due.after_events {
            0 => Some(due.at),
            _ => due.at.checked_add(MOMENT).ok(),
        }
    }

    /// Whether the time of the next one has come; `recorded` is the number of recorded events.
    pub(super) fn is_due(&self, now: Timestamp, recorded: u64) -> bool {
        let is_due = |due: &Due| now > due.at || now == due.at && recorded >= due.after_events;
        self.due.front().is_some_and(is_due)
    }

    /// Takes the next one if its time has come.
    fn take(&mut self, now: Timestamp, recorded: u64) -> Option<Due> {
        if self.is_due(now, recorded) {
            self.due.pop_front()
        } else {
            None
        }
    }
}

impl<S: Stage> Engine<'_, S> {
    /// Performs the timed steps whose time has come.
    pub(super) async fn perform_timed_steps(&mut self) -> Result<(), Failure> {
        while self.timed.is_due(self.clock.now(), self.recording.count()) {
            self.arrive(false)?;
            let next = self.timed.take(self.clock.now(), self.recording.count());
            let Some(Due { disturbance, step, .. }) = next else {
                break;
            };
            let now = self.clock.now();
            let until = match step.request() {
                Request::Pause(pause) => Some(self.later(pause.time.value(self.stage.timeouts()))),
                _ => None,
            };
            self.recording.add(|recorder| recorder.timed_step(now, &step, until));
            let armed = self.crashes.len();
            match Box::pin(self.user_action(&step)).await {
                Ok(()) => {
                    let crashes = self.crashes.split_off(armed).into_iter();
                    let crashes = crashes.map(|(_, crash)| crash).collect();
                    self.timed.performed.insert(disturbance, (step, crashes));
                }
                Err(StepError::Refused(error)) => self.note(&format!("{}: no effect: {error}", step.description())),
                Err(StepError::Ended(failure)) => return Err(failure),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use scenario::builder::lift;
    use scenario::plan::TimedStep;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_893_456_000 + second).unwrap()
    }

    fn timed(seconds: u64, after_events: Option<u64>, rule: &str) -> Disturbance {
        Disturbance::Step(Box::new(TimedStep {
            at: std::time::Duration::from_secs(seconds).into(),
            after_events,
            step: lift(rule),
        }))
    }

    #[test]
    fn steps_come_in_order_of_time_and_of_events_at_the_same_time() {
        let plan = [
            timed(60, Some(12), "third"),
            timed(60, Some(9), "second"),
            timed(30, None, "first"),
        ];
        let mut steps = TimedSteps::of(&plan, at(0), &Timeouts::production());
        let mut take = |second, recorded| steps.take(at(second), recorded).map(|due| due.disturbance);
        assert_eq!(take(29, 100), None);
        assert_eq!(take(30, 0), Some(2));
        assert_eq!(take(60, 8), None);
        assert_eq!(take(60, 9), Some(1));
        assert_eq!(take(60, 11), None);
        // Fewer events than expected: the time is past.
        assert_eq!(take(61, 11), Some(0));
        assert_eq!(take(99, 99), None);
    }

    #[test]
    fn a_step_after_a_number_of_events_is_due_a_moment_after_its_time_at_the_latest() {
        let steps = |plan| TimedSteps::of(&[plan], at(0), &Timeouts::production());
        assert_eq!(steps(timed(60, None, "a")).next(), Some(at(60)));
        let next = steps(timed(60, Some(9), "a")).next().unwrap();
        assert!(next > at(60) && next < at(61), "{next}");
        assert_eq!(TimedSteps::default().next(), None);
    }
}
