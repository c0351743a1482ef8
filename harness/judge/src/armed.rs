//! Expectations that are being evaluated.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use scenario::Timeouts;
use scenario::expect::{Condition, Expectation, Temporal};
use scenario::signature::Signature;

use crate::evaluate::{call_count, describe, holds, resolved};
use crate::grounds::ungrounded;
use crate::readings::Readings;
use crate::signature;
use crate::unmet;
use crate::world::WorldState;

/// The state of an expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Undecided: evaluate again at every observation, and at this time at the latest.
    Pending(Timestamp),
    /// Met.
    Met,
    /// Missed, with the reason.
    Missed(String),
}

/// An expectation that is being evaluated.
#[derive(Clone, Debug)]
pub struct Armed {
    expectation: Expectation,
    /// Its condition, resolved when it started.
    that: Condition,
    since: Timestamp,
    holding_since: Option<Timestamp>,
    /// Since when the world contradicts the expectation.
    contradicted_since: Option<Timestamp>,
    count: u64,
    count_before: u64,
    readings: Readings,
    evaluations: u64,
}

impl Armed {
    /// Starts the expectation.
    pub fn new(expectation: Expectation, now: Timestamp, world: &WorldState) -> Self {
        let count_before = match &expectation.that {
            Condition::Calls(calls) => call_count(world, calls.call.rpc(), &calls.machine),
            _ => 0,
        };
        Self {
            that: resolved(&expectation.that, world),
            readings: Readings::new(&expectation, now, world),
            expectation,
            since: now,
            holding_since: None,
            contradicted_since: None,
            count: 0,
            count_before,
            evaluations: 0,
        }
    }

    /// The expectation.
    pub fn expectation(&self) -> &Expectation {
        &self.expectation
    }

    /// The signature of its failure, now that it is missed.
    pub fn signature(&self, world: &WorldState, timeouts: &Timeouts) -> Signature {
        signature::of_missed(&self.expectation, &self.that, world, timeouts)
    }

    /// The parts of its condition that do not hold as expected, each with what is observed.
    pub fn unmet(&self, world: &WorldState, timeouts: &Timeouts) -> Vec<(String, String)> {
        unmet::parts(&self.expectation, &self.that, world, timeouts)
    }

    /// Why the expectation could not fail, now that it is met: nothing that its condition names ever existed; `None`: it
    /// could.
    pub fn ungrounded(&self, world: &WorldState) -> Option<String> {
        ungrounded(&self.expectation.that, world)
    }

    /// Records the values that its conditions read. Call it after every observation.
    pub fn record(&mut self, now: Timestamp, world: &WorldState) {
        self.readings.record(now, world);
    }

    /// The values that its conditions read, one line for each, with the times of their changes relative to `started`.
    pub fn readings(&self, started: Timestamp) -> Vec<String> {
        self.readings.lines(started)
    }

    /// How often the expectation was evaluated so far.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Whether the expectation ends only with the scenario.
    pub fn is_throughout(&self) -> bool {
        self.expectation.holds == Temporal::Throughout
    }

    /// Evaluates the expectation; called at every observation and at the time of `Pending`.
    pub fn judge(&mut self, now: Timestamp, world: &WorldState, timeouts: &Timeouts) -> Verdict {
        self.evaluations += 1;
        let that = &self.that;
        let holds = holds(that, world, timeouts);
        let until = |time: Duration| self.since.saturating_add(signed(time)).unwrap_or(Timestamp::MAX);
        let deadline = |limit: Duration| timeouts.deadline(self.since, limit);
        let description_now = || describe(that, world);
        match &self.expectation.holds {
            Temporal::Eventually(within) => match deadline(within.value(timeouts)) {
                deadline if holds && now <= deadline => Verdict::Met,
                deadline if now < deadline => Verdict::Pending(deadline),
                _ => Verdict::Missed(description_now()),
            },
            Temporal::Always(time) => {
                let until = until(time.value(timeouts));
                self.steady(now, holds, until, world, timeouts)
            }
            Temporal::Throughout => self.steady(now, holds, Timestamp::MAX, world, timeouts),
            Temporal::Never(time) => {
                let until = until(time.value(timeouts));
                self.steady(now, !holds, until, world, timeouts)
            }
            Temporal::ForAtLeast(form) => {
                let deadline = deadline(form.within.value(timeouts));
                self.holding_since = if holds { self.holding_since.or(Some(now)) } else { None };
                let met_at = self.holding_since.map(|since| {
                    since
                        .saturating_add(signed(form.time.value(timeouts)))
                        .unwrap_or(Timestamp::MAX)
                });
                match met_at {
                    Some(met_at) if now >= met_at && met_at <= deadline => Verdict::Met,
                    _ if now >= deadline => Verdict::Missed(description_now()),
                    Some(met_at) => Verdict::Pending(met_at.min(deadline)),
                    None => Verdict::Pending(deadline),
                }
            }
            Temporal::AtMost(form) => {
                let deadline = until(form.within.value(timeouts));
                match that {
                    Condition::Calls(calls) => {
                        self.count = call_count(world, calls.call.rpc(), &calls.machine) - self.count_before;
                    }
                    _ if holds && self.holding_since.is_none() => self.count += 1,
                    _ => {}
                }
                self.holding_since = holds.then_some(now);
                match self.count {
                    count if count > form.times => {
                        Verdict::Missed(format!("it occurred {count} times; {}", description_now()))
                    }
                    _ if now >= deadline => Verdict::Met,
                    _ => Verdict::Pending(deadline),
                }
            }
        }
    }
}

impl Armed {
    /// The state of an expectation that requires `satisfied` until a time: it is missed when the world contradicts it
    /// for longer than watches may disagree.
    fn steady(
        &mut self,
        now: Timestamp,
        satisfied: bool,
        until: Timestamp,
        world: &WorldState,
        timeouts: &Timeouts,
    ) -> Verdict {
        if satisfied {
            self.contradicted_since = None;
            return if now >= until {
                Verdict::Met
            } else {
                Verdict::Pending(until)
            };
        }
        let since = *self.contradicted_since.get_or_insert(now);
        let skew = match is_of_one_object(&self.that) {
            true => Duration::ZERO,
            false => timeouts.skew,
        };
        match timeouts.deadline(since, skew) {
            over if now < over => Verdict::Pending(over),
            _ => Verdict::Missed(describe(&self.that, world)),
        }
    }
}

/// Whether the condition is about one object: all versions of an object are observed in their order, so that each
/// contradiction is real. Observations of several objects may disagree for a short time.
fn is_of_one_object(condition: &Condition) -> bool {
    match condition {
        Condition::Not(condition) => is_of_one_object(condition),
        Condition::Exists(_) | Condition::Field(_) | Condition::Phase(_) | Condition::MachineGone(_) => true,
        Condition::NodeGone(_) | Condition::Observed(_) | Condition::ErrorCode(_) => true,
        _ => false,
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
#[path = "armed_tests.rs"]
mod tests;
