//! The time until which a process leads, with or without renewals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::{Clock, Pulses};
use jiff::Timestamp;

use parking_lot::Mutex;

use super::step::Settings;

/// The time until which this process certainly leads, by the wall clock; renewals extend it.
#[derive(Clone, Debug)]
pub struct Tenure {
    until: Arc<Mutex<Timestamp>>,
    expires: Arc<AtomicBool>,
    pulse: Option<PulseRenewal>,
}

/// Renewals by a pulse instead of requests, in a simulated world.
#[derive(Clone, Debug)]
pub(super) struct PulseRenewal {
    pub(super) pulses: Pulses,
    /// The name of the pulse: the identity of this process.
    pub(super) name: String,
    /// The clock of the pulses.
    pub(super) clock: Clock,
    pub(super) settings: Settings,
}

/// A running pulse. Dropping it ends the pulse, for example in a crash or when leadership ends.
struct RunningPulse<'a>(&'a PulseRenewal);

impl Drop for RunningPulse<'_> {
    fn drop(&mut self) {
        self.0.pulses.end(&self.0.name, self.0.clock.now());
    }
}

impl PulseRenewal {
    /// Runs a pulse after a renewal at `renewed_at` for as long as allowed; returns its last beat, if any.
    async fn run(&self, renewed_at: Timestamp) -> Option<Timestamp> {
        let period = self.settings.retry_period;
        let until = self.pulses.begin(&self.name, renewed_at, period)?;
        let running = RunningPulse(self);
        tokio::select! {
            biased;
            () = self.pulses.ended(&self.name) => {}
            // The next renewal after this time must be a request.
            () = self.clock.sleep_until(until.checked_sub(period).unwrap_or(until)) => {}
        }
        drop(running);
        self.pulses.last(&self.name, self.clock.now())
    }

    /// The time until which the beats before `now` extend the leadership.
    fn leads_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.pulses.last(&self.name, now)?;
        last.checked_add(self.settings.renew_deadline).ok()
    }
}

impl Tenure {
    /// The tenure of a process without leader election.
    pub fn unlimited() -> Self {
        Self::until(Timestamp::MAX)
    }

    pub(super) fn until(until: Timestamp) -> Self {
        Self {
            until: Arc::new(Mutex::new(until)),
            expires: Arc::default(),
            pulse: None,
        }
    }

    pub(super) fn renewing_by_pulse(self, pulse: Option<PulseRenewal>) -> Self {
        Self { pulse, ..self }
    }

    /// Lets the Lease expire instead of releasing it, because an operation of this process may still have
    /// an effect: the next leader should not repeat it at once.
    pub fn let_expire(&self) {
        self.expires.store(true, Ordering::Relaxed);
    }

    pub(super) fn expires(&self) -> bool {
        self.expires.load(Ordering::Relaxed)
    }

    /// Whether this process leads at `now`.
    pub fn holds(&self, now: Timestamp) -> bool {
        let renewed = *self.until.lock();
        let by_pulse = self.pulse.as_ref().and_then(|pulse| pulse.leads_until(now));
        now < by_pulse.map_or(renewed, |by_pulse| by_pulse.max(renewed))
    }

    /// Whether a pulse currently replaces the renewals of this process.
    pub fn renews_by_pulse(&self) -> bool {
        let pulse = self.pulse.as_ref();
        pulse.is_some_and(|pulse| pulse.pulses.beats(&pulse.name))
    }

    pub(super) fn extend(&self, until: Timestamp) {
        *self.until.lock() = until;
    }

    /// Leads without renewals after the one at `renewed_at` while a pulse replaces them; returns the time of the last
    /// replaced renewal, if any.
    pub(super) async fn renew_by_pulse(&self, renewed_at: Timestamp) -> Option<Timestamp> {
        self.pulse.as_ref()?.run(renewed_at).await
    }
}
