//! Estimates how long a scenario takes, for scheduling the longest first.

use std::time::Duration;

use super::expect::Temporal;
use super::{Scenario, Step, Timeouts};

impl Scenario {
    /// An estimate from the steps: fixed waits count fully, and maximum waits by half.
    pub fn length(&self, timeouts: &Timeouts) -> Duration {
        self.steps.iter().map(|step| step_length(step, timeouts)).sum()
    }
}

fn step_length(step: &Step, timeouts: &Timeouts) -> Duration {
    match step {
        Step::Wait(time) => time.0.value(timeouts),
        Step::Expect(expectation) if expectation.meanwhile => Duration::ZERO,
        Step::Expect(expectation) => match &expectation.holds {
            Temporal::Eventually(within) => within.value(timeouts) / 2,
            Temporal::Always(time) | Temporal::Never(time) => time.value(timeouts),
            Temporal::ForAtLeast(form) => form.time.value(timeouts),
            Temporal::AtMost(form) => form.within.value(timeouts),
            Temporal::Throughout => Duration::ZERO,
        },
        Step::QuietEnd(quiet) => quiet.settles.value(timeouts),
        _ => Duration::ZERO,
    }
}
